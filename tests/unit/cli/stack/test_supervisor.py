import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from cli.stack.process import Backoff, ServiceSpec, SupervisedProcess
from cli.stack.supervisor import Supervisor
from core.errors import Unavailable
from tests.unit.cli.toys import BROKEN, DEAF, is_alive, notes, pids, toy


async def until(happens, within_s=20.0):
    async with asyncio.timeout(within_s):
        while not happens():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def supervised(tmp_path, *stages) -> AsyncIterator[tuple[Supervisor, list[str]]]:
    told: list[str] = []
    supervisor = Supervisor(stages, logs=tmp_path / "logs", tell=told.append)
    try:
        await supervisor.start()
        yield supervisor, told
    finally:
        await supervisor.stop()


async def test_stages_start_in_order_and_stop_in_reverse(tmp_path):
    note = tmp_path / "note"
    stages = ([toy("store", note)], [toy("api", note)], [toy("worker", note)])
    async with supervised(tmp_path, *stages):
        assert notes(note, "started") == ["store", "api", "worker"]
    assert notes(note, "ended") == ["worker", "api", "store"]


async def test_what_dies_is_started_again(tmp_path):
    note = tmp_path / "note"
    async with supervised(tmp_path, [toy("worker", note)]) as (supervisor, told):
        (child,) = supervisor.children
        os.kill(child.pid, signal.SIGKILL)
        await until(lambda: child.restarts and len(notes(note, "started")) == 2)
        assert child.restarts == 1
        assert told[-1].startswith("worker ended with -9; again in 0.5 s")
    assert notes(note, "ended") == ["worker"]


async def test_what_dies_is_started_again_even_if_somebody_removed_the_logs(tmp_path):
    note = tmp_path / "note"
    async with supervised(tmp_path, [toy("worker", note)]) as (supervisor, _):
        (child,) = supervisor.children
        shutil.rmtree(tmp_path / "logs")
        os.kill(child.pid, signal.SIGKILL)
        await until(lambda: len(notes(note, "started")) == 2)
    assert notes(note, "ended") == ["worker"]


async def test_what_cannot_be_started_again_now_is_started_later(tmp_path):
    note, logs = tmp_path / "note", tmp_path / "logs"
    async with supervised(tmp_path, [toy("worker", note)]) as (supervisor, told):
        (child,) = supervisor.children
        shutil.rmtree(logs)
        logs.write_text("no folder")
        os.kill(child.pid, signal.SIGKILL)
        await until(lambda: "worker cannot be started" in told[-1])
        assert told[-1].endswith("again in 1.0 s")
        logs.unlink()
        await until(lambda: child.restarts and len(notes(note, "started")) == 2)
        assert child.restarts == 1
    assert notes(note, "ended") == ["worker"]


async def test_what_hangs_is_killed_and_started_again(tmp_path):
    note = tmp_path / "note"
    hangs = False

    async def is_healthy() -> bool | None:
        return not (hangs and len(notes(note, "started")) == 1)

    service = replace(toy("api", note), is_healthy=is_healthy, check_s=0.02)
    async with supervised(tmp_path, [service]) as (supervisor, told):
        os.kill(supervisor.children[0].pid, signal.SIGSTOP)
        hangs = True
        await until(lambda: len(notes(note, "started")) == 2)
        assert "api did not answer 6 times in a row: killed" in told
        await asyncio.sleep(0.3)
        assert len(notes(note, "started")) == 2


async def test_a_program_that_nobody_can_judge_or_that_still_starts_is_left_alone(tmp_path):
    note, answers = tmp_path / "note", [None] * 20

    async def is_healthy() -> bool | None:
        return answers.pop() if answers else False

    service = replace(toy("api", note), is_healthy=is_healthy, check_s=0.01)
    async with supervised(tmp_path, [service]) as (_, told):
        await until(lambda: not answers)
        await until(lambda: len(notes(note, "started")) == 2)  # it was healthy once, at its start
        await asyncio.sleep(0.3)  # and has not been since: it may still be starting
        assert len(notes(note, "started")) == 2
        assert sum("killed" in line for line in told) == 1


async def test_a_program_that_ends_at_its_start_is_named_with_the_end_of_its_log(tmp_path):
    service = toy("api", tmp_path / "note", BROKEN)
    with pytest.raises(Unavailable, match=r"api ended at its start(.|\n)*no such setting"):
        async with supervised(tmp_path, [service]):
            pass


async def test_an_answer_is_somebody_elses_once_the_program_has_ended(tmp_path):
    async def answers() -> bool:
        return supervisor.children[0].pid is None

    service = replace(toy("api", tmp_path / "note", BROKEN), is_ready=answers)
    supervisor = Supervisor([[service]], logs=tmp_path / "logs", tell=list)
    with pytest.raises(Unavailable, match="api ended at its start"):
        await supervisor.start()


async def test_a_program_that_nobody_can_ask_has_not_started_if_it_ends_meanwhile(tmp_path):
    note = tmp_path / "note"

    async def has_seen_it_end() -> bool:
        return bool(supervisor.children[0].restarts) or supervisor.children[0].pid is None

    cpu = replace(toy("cpu", note, BROKEN), is_ready=None)
    worker = replace(toy("worker", note), is_ready=has_seen_it_end)
    supervisor = Supervisor([[cpu], [worker]], logs=tmp_path / "logs", tell=list)
    try:
        with pytest.raises(Unavailable, match=r"cpu ended at its start(.|\n)*no such setting"):
            await supervisor.start()
    finally:
        await supervisor.stop()


async def test_a_program_that_is_never_ready_is_given_up_and_stopped(tmp_path):
    note = tmp_path / "note"

    async def never() -> bool:
        return False

    command = toy("api", note).command
    service = ServiceSpec(name="api", command=command, is_ready=never, start_s=0.2)
    with pytest.raises(Unavailable, match="not ready within 0 s"):
        async with supervised(tmp_path, [service]):
            pass
    assert not any(is_alive(pid) for pid in pids(note, "api"))


async def test_what_does_not_listen_is_killed_with_all_it_started(tmp_path):
    note = tmp_path / "note"
    async with supervised(tmp_path, [toy("deaf", note, DEAF, stop_s=0.3)]) as (_, told):
        (pid,), (grandchild,) = pids(note, "deaf"), pids(note, "grandchild")
        assert is_alive(pid)
        assert is_alive(grandchild)
    await until(lambda: not is_alive(grandchild))
    assert not is_alive(pid)
    assert any("killed" in line for line in told)


async def test_whatever_goes_wrong_with_one_the_others_are_stopped(tmp_path):
    note, looks = tmp_path / "note", []

    async def is_healthy() -> bool:
        looks.append(1)
        raise OSError("no look")

    api = replace(toy("api", note), is_healthy=is_healthy, check_s=0.01)
    async with supervised(tmp_path, [toy("store", note)], [api]) as (_, told):
        await until(lambda: looks)
    assert notes(note, "ended") == ["api", "store"]
    assert "api was not stopped in order: no look" in told


async def test_somebody_who_does_not_want_to_wait_kills_everything(tmp_path):
    note = tmp_path / "note"
    supervisor = Supervisor([[toy("deaf", note, DEAF, stop_s=60.0)]], logs=tmp_path, tell=list)
    await supervisor.start()
    stopping = asyncio.create_task(supervisor.stop())
    await asyncio.sleep(0.05)
    supervisor.kill()
    await asyncio.wait_for(stopping, 60)
    await until(lambda: not any(is_alive(pid) for pid in pids(note, "grandchild")))


async def test_what_a_dead_program_left_behind_is_killed_before_its_next_start(tmp_path):
    note = tmp_path / "note"
    async with supervised(tmp_path, [toy("deaf", note, DEAF, stop_s=0.1)]):
        (pid,), (grandchild,) = pids(note, "deaf"), pids(note, "grandchild")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: len(pids(note, "deaf")) == 2)
        await until(lambda: not is_alive(grandchild))


async def test_stopping_while_a_restart_is_due_starts_nothing(tmp_path):
    note = tmp_path / "note"
    async with supervised(tmp_path, [toy("worker", note)]) as (supervisor, told):
        os.kill(supervisor.children[0].pid, signal.SIGKILL)
        await until(lambda: "again" in told[-1])
    assert len(notes(note, "started")) == 1


async def test_the_log_has_what_the_program_said(tmp_path):
    program = "import pathlib, sys, time; print('hello', flush=True)\n"
    program += "pathlib.Path(sys.argv[1]).write_text('started api 1'); time.sleep(60)"
    async with supervised(tmp_path, [toy("api", tmp_path / "note", program)]):
        assert (tmp_path / "logs" / "api.log").read_text() == "hello\n"


async def test_a_large_log_is_set_aside(tmp_path):
    log = tmp_path / "api.log"
    log.write_bytes(b"x" * (17 * 2**20))
    child = SupervisedProcess(toy("api", tmp_path / "note"), log, lambda _: None, Backoff())
    await child.start()
    await child.stop()
    assert log.stat().st_size == 0
    assert (tmp_path / "api.log.1").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tethers")
def test_everything_dies_with_the_supervisor_however_it_dies(tmp_path):
    note = tmp_path / "note"
    program = f"""
import asyncio, pathlib
from cli.stack.supervisor import Supervisor
from tests.unit.cli.toys import toy
async def run():
    note = pathlib.Path({str(note)!r})
    stages = [[toy("one", note)], [toy("two", note)]]
    await Supervisor(stages, logs=note.parent / "logs", tell=lambda _: None).start()
    print("up", flush=True)
    await asyncio.sleep(600)
asyncio.run(run())
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout.readline() == "up\n"
        children = [*pids(note, "one"), *pids(note, "two")]
        assert all(is_alive(pid) for pid in children)
        supervisor.kill()
    asyncio.run(until(lambda: not any(is_alive(pid) for pid in children)))


def test_the_wait_before_a_restart_doubles_up_to_a_limit():
    backoff = Backoff(first_s=1.0, most_s=5.0)
    assert [backoff.after(0.1) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_long_life_is_forgiven():
    backoff = Backoff(first_s=1.0, healthy_s=60.0)
    assert [backoff.after(lived) for lived in (0.1, 0.1, 90.0, 0.1)] == [1.0, 2.0, 1.0, 2.0]
