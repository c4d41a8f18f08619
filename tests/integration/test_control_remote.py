"""ControlNets in other processes: the same image, whichever way residuals come, whoever dies."""

import os
import signal
import threading
import time
from dataclasses import replace

import pytest
from diffusers import StableDiffusionXLControlNetPipeline

from core.errors import ControlUnavailable
from core.job import Control, Quality
from tests.control import ControlHouse, ControlPool, some_conditions
from tests.control_faults import Loss, Phase
from tests.control_worker import an_opening
from tests.footprint import footprint
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sdxl
from tests.stock import difference, engine_images
from worker.control import wire
from worker.control.client.losses import MOST_LOSSES
from worker.control.client.remote import RemoteControlNets
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.control.server.server import ControlServer
from worker.control.stale import Stale
from worker.engine.engine import Engine

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

EDGES = Control(controlnet="edges", image="")
DEPTH = Control(controlnet="depth", image="", scale=0.7)
TOGETHER = 2e-6


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return ControlHouse(
        tmp_path_factory.mktemp("house"), save_sdxl, StableDiffusionXLControlNetPipeline
    )


@pytest.fixture(scope="module")
def pool(house):
    pool = ControlPool(house.folder)
    pool.start(2)
    yield pool
    pool.close()


@pytest.fixture
def connect(pool):
    """Open a base worker's side; closed after the test."""
    opened = []

    def connect(arena_bytes=2**24, patience_s=20.0, **options):
        remote = RemoteControlNets(
            pool.offer, arena_bytes=arena_bytes, patience_s=patience_s, **options
        )
        opened.append(remote)
        return remote

    yield connect
    for remote in opened:
        remote.close()


@pytest.mark.parametrize(
    "options",
    [{}, {"arena_bytes": 64}, {"host": "127.0.0.1", "arena_bytes": 64}],
    ids=["shared memory", "socket of the host", "socket between hosts"],
)
def test_an_image_is_the_stock_pipelines_to_the_bit(house, connect, options):
    recorder = house.recorder(connect(**options))
    job = a_job(model=house.model.name, controls=(EDGES, DEPTH))
    brought = some_conditions(2)
    image = engine_images(recorder, [(0, job)], inputs={job.id: brought})[job.id][0]
    assert difference(image, house.stock_image(job.request, brought)) == 0


def test_two_base_workers_share_the_controlnets_and_nobody_starves(house, connect):
    jobs = [a_job(f"j{i}", model=house.model.name, seed=i, controls=(EDGES,)) for i in range(4)]
    brought = {job.id: some_conditions(1, i) for i, job in enumerate(jobs)}
    made = {}

    def work(recorder, own):
        made.update(engine_images(recorder, [(0, job) for job in own], inputs=brought))

    threads = [
        threading.Thread(target=work, args=(house.recorder(connect()), jobs[at::2]))
        for at in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for job in jobs:
        expected = house.stock_image(job.request, brought[job.id])
        assert difference(made[job.id][0], expected) <= TOGETHER


def test_residuals_a_step_late_give_another_image_unless_exact_quality_is_asked_for(house, connect):
    recorder = house.recorder(connect(), Stale.ALWAYS)
    brought = some_conditions(1)
    jobs = [a_job(q, model=house.model.name, controls=(EDGES,), quality=q) for q in Quality]
    made = engine_images(
        recorder, [(0, job) for job in jobs], inputs={job.id: brought for job in jobs}
    )
    expected = house.stock_image(jobs[0].request, brought)
    assert difference(made[Quality.EXACT][0], expected) <= TOGETHER
    assert 1e-4 < difference(made[Quality.AUTO][0], expected) < 0.2


CASES = [*((phase, Stale.NEVER) for phase in Phase), (Phase.BETWEEN, Stale.ALWAYS)]


@pytest.mark.parametrize(("phase", "stale"), CASES)
def test_a_worker_that_is_lost_in_any_phase_changes_nothing_of_the_image(
    house, pool, connect, phase, stale
):
    job = a_job(model=house.model.name, steps=6, controls=(EDGES,))
    brought = some_conditions(1)
    remote = connect()
    recorder = house.recorder(remote, stale)
    expected = engine_images(recorder, [(0, job)], inputs={job.id: brought})[job.id][0]
    pool.start_first(load_s=3.0 if phase is Phase.OPENING else 0.0)
    loss = Loss(remote, phase, stop=pool.stop_the_one_in_use, kill=pool.kill_the_one_in_use)
    outcome = loss.make(an_engine(recorder), job, brought)
    if phase is Phase.HANGING:
        pool.kill_the_one_that_hangs()
    assert difference(outcome.image, expected) == 0
    assert (outcome.back_s is None) == (phase is Phase.ENDING)


def test_hundreds_of_sessions_leave_nothing_behind(pool, connect):
    remote, opening = connect(), an_opening()
    pids = [process.pid for process, _ in pool.workers]

    def open_and_close(count):
        for _ in range(count):
            session = remote.open(opening)
            while session.waits_for() is not None:
                time.sleep(0.0005)
            session.close()
        time.sleep(0.2)  # for threads that end
        return footprint(*pids)

    before = open_and_close(100)
    grown, until = open_and_close(200) - before, time.monotonic() + 60.0
    while (grown.files > 2 or grown.threads > 2) and time.monotonic() < until:
        time.sleep(0.05)  # some have not come to their end yet
        grown = footprint(*pids) - before
    assert not remote._sessions and not remote._landing._arena.blocks
    assert grown.mib < 8 and grown.files <= 2 and grown.threads <= 2


def test_sessions_of_a_base_worker_that_is_killed_are_over(house):
    pool = ControlPool(house.folder)
    pool.start()
    base = pool.start_a_base_worker()
    base.kill()
    assert pool.next_end() == "the base worker is gone"
    base.join()
    pool.close()


def test_a_base_worker_whose_steps_take_long_keeps_its_session(house):
    pool = ControlPool(house.folder)
    pool.start()
    remote = RemoteControlNets(pool.offer, arena_bytes=2**20, patience_s=20.0)
    session = remote.open(an_opening())
    time.sleep(6.0)  # in a step: nothing is read meanwhile
    while session.waits_for() is not None:
        time.sleep(0.001)
    session.close()
    assert pool.next_end() == "its image is made, or given up"
    assert session.num_offers == 1
    remote.close()
    pool.close()


def test_a_session_that_is_offered_twice_is_had_once(house, pool, connect):
    remote = connect()
    offer = remote._courier._offer
    remote._courier._offer = lambda each: [offer(each) for _ in range(3)]
    job = a_job(model=house.model.name, controls=(EDGES,))
    brought = some_conditions(1)
    image = engine_images(house.recorder(remote), [(0, job)], inputs={job.id: brought})[job.id][0]
    assert difference(image, house.stock_image(job.request, brought)) == 0


def test_a_session_that_its_worker_has_dropped_is_opened_again(house, pool, connect):
    remote = connect()
    engine = an_engine(house.recorder(remote))
    job = a_job(model=house.model.name, controls=(EDGES,))
    brought = some_conditions(1)
    future = two_steps_on(engine, job, brought)
    [session] = remote._sessions.values()
    remote._send(session.peer, wire.frames(wire.End(session=session.id)))
    while not future.done():
        engine.step()
    expected = house.stock_image(job.request, brought)
    assert difference(future.result().images[0], expected) == 0


def test_one_that_acts_no_more_is_not_waited_for(house, pool, connect):
    remote = connect()
    engine = an_engine(house.recorder(remote))
    early = replace(EDGES, end=0.5)
    job = a_job(model=house.model.name, steps=4, controls=(early,))
    brought = some_conditions(1)
    future = two_steps_on(engine, job, brought)
    pool.is_away, remote._patience_s = True, 0.1
    [session] = remote._sessions.values()
    remote._lose(session.peer)
    while not future.done():
        engine.step()
    pool.is_away = False
    expected = house.stock_image(job.request, brought)
    assert difference(future.result().images[0], expected) == 0


def test_one_that_begins_and_ends_between_two_steps_is_not_asked_for(house, pool, connect):
    pool.is_away = True
    never = replace(EDGES, start=0.3, end=0.4)
    job, plain = (
        a_job(name, model=house.model.name, steps=4, controls=controls)
        for name, controls in {"steered": (never,), "plain": ()}.items()
    )
    recorder = house.recorder(connect(patience_s=0.1))
    made = engine_images(recorder, [(0, job)], inputs={job.id: some_conditions(1)})
    assert difference(made[job.id][0], engine_images(recorder, [(0, plain)])[plain.id][0]) == 0
    pool.is_away = False


def test_a_job_whose_workers_are_lost_one_after_the_other_is_given_up(pool, connect):
    remote = connect()
    session = remote.open(an_opening())
    for _ in range(MOST_LOSSES):
        wait_for(session)
        remote._lose(session.peer)
    with pytest.raises(ControlUnavailable, match="one after the other"):
        session.waits_for()


def test_of_several_jobs_whose_worker_is_lost_one_after_the_other_is_tried(house, monkeypatch):
    monkeypatch.setattr("worker.control.client.losses.ALONE_S", 600.0)
    pool = ControlPool(house.folder)
    pool.start()
    remote = RemoteControlNets(pool.offer, arena_bytes=2**24, patience_s=20.0)
    first, *others = sessions = [remote.open(an_opening()) for _ in range(3)]
    for session in sessions:
        wait_for(session)
    remote._lose(first.peer)
    assert [each.num_losses for each in sessions] == [0, 0, 0], "it may have been any of them"
    for _ in range(MOST_LOSSES):
        wait_for(first)
        assert all(each.waits_for() and not each.num_offers for each in others)
        remote._lose(first.peer)
    assert isinstance(first.error, ControlUnavailable)
    first.close()
    monkeypatch.setattr("worker.control.client.losses.ALONE_S", 1.0)
    for session in others:  # the second of them once the first has had its time
        wait_for(session)
    assert [each.error for each in others] == [None, None]
    remote.close()
    pool.close()


def wait_for(session):
    while session.waits_for() is not None:
        time.sleep(0.002)


def test_a_worker_that_answers_late_goes_on_with_what_it_was_given_again(
    house, connect, monkeypatch
):
    for limit, seconds in (("LATE_S", 0.1), ("LATE_FACTOR", 0.0), ("ANSWER_S", 0.3)):
        monkeypatch.setattr(f"worker.control.client.remote.{limit}", seconds)
    pool = ControlPool(house.folder)
    pool.start()
    remote = RemoteControlNets(pool.offer, arena_bytes=2**24, patience_s=20.0)
    engine = an_engine(house.recorder(remote))
    job = a_job(model=house.model.name, controls=(EDGES,))
    brought = some_conditions(1)
    future = two_steps_on(engine, job, brought)
    halted = pool.in_use[0].pid
    os.kill(halted, signal.SIGSTOP)
    threading.Timer(0.7, os.kill, (halted, signal.SIGCONT)).start()  # before it counts as gone
    while not future.done():
        engine.step()
    while pool.next_end() != "its image is made, or given up":
        pass  # it was offered more than once
    remote.close()
    pool.close()
    expected = house.stock_image(job.request, brought)
    assert difference(future.result().images[0], expected) == 0


def test_others_are_made_while_those_of_a_worker_that_is_late_wait(house, monkeypatch):
    monkeypatch.setattr("worker.control.client.remote.LATE_S", 0.1)
    monkeypatch.setattr("worker.control.client.remote.LATE_FACTOR", 0.0)
    network = load_network(house.folder / "edges", device="cpu", dtype="float32")
    go_on, residuals = threading.Event(), network.residuals
    network.residuals = lambda *args: go_on.wait(60.0) and residuals(*args)
    server = ControlServer(ModelCache(lambda name: network, 2**30), max_rows=16)
    server.start()
    remote = RemoteControlNets(
        lambda offer: threading.Thread(target=server.serve, args=(offer,), daemon=True).start(),
        arena_bytes=2**24,
        patience_s=20.0,
    )
    engine = an_engine(house.recorder(remote))
    steered = [
        a_job(f"s{seed}", model=house.model.name, seed=seed, controls=(EDGES,)) for seed in (1, 2)
    ]
    brought = some_conditions(1)
    futures = [engine.add(job, None, brought) for job in steered]
    plain = engine.add(a_job("plain", model=house.model.name), None)
    while not plain.done():
        engine.step()
    assert not any(future.done() for future in futures)
    go_on.set()
    while not all(future.done() for future in futures):
        engine.step()
    remote.close()
    server.close()
    for job, future in zip(steered, futures, strict=True):
        expected = house.stock_image(job.request, brought)
        assert difference(future.result().images[0], expected) <= TOGETHER


def test_a_job_waits_for_a_worker_until_its_deadline_and_says_so(house, pool, connect):
    pool.is_away, moment = True, [0.0]
    remote = connect()
    engine = an_engine(house.recorder(remote), clock=lambda: moment[0])
    late = a_job("late", model=house.model.name, controls=(EDGES,))
    plain = a_job("plain", model=house.model.name)
    futures = [engine.add(late, 1.0, some_conditions(1)), engine.add(plain, None)]
    while not (remote._sessions and futures[1].done()):
        engine.step()
    moment[0] = 2.0
    while not futures[0].done():
        engine.step()
    assert "waited for a ControlNet worker" in str(futures[0].exception())
    assert futures[0].exception().type == "control_unavailable"
    assert len(futures[1].result().images) == 1  # nobody else waits
    pool.is_away = False


def test_a_job_without_a_deadline_waits_as_long_as_the_settings_say(house, pool, connect):
    pool.is_away = True
    engine = an_engine(house.recorder(connect(patience_s=0.1)))
    future = engine.add(a_job(model=house.model.name, controls=(EDGES,)), None, some_conditions(1))
    while not future.done():
        engine.step()
    assert "no ControlNet worker has taken this job within 0.1 s" in str(future.exception())
    pool.is_away = False


def test_a_controlnet_that_is_not_there_fails_its_job_and_says_why(house, connect):
    job = a_job(model=house.model.name, controls=(Control(controlnet="pose", image=""),))
    made = engine_images(
        house.recorder(connect()), [(0, job)], inputs={job.id: some_conditions(1)}, are_failing=True
    )
    assert "pose/config.json: missing" in str(made[job.id])


def test_sessions_end_with_their_images_and_with_their_base_worker(house, connect):
    pool = ControlPool(house.folder)
    pool.start()
    remote = RemoteControlNets(pool.offer, arena_bytes=2**24, patience_s=20.0)
    engine = an_engine(house.recorder(remote))
    jobs = [a_job(f"e{i}", model=house.model.name, seed=i, controls=(EDGES,)) for i in range(2)]
    done = engine.add(jobs[0], None, some_conditions(1))
    while not done.done():
        engine.step()
    while "its image is made" not in pool.next_end():
        pass  # a machine that stalls ends a session early, and offers it again
    engine.add(jobs[1], None, some_conditions(1))
    while not engine.running or engine.running[0].step < 1:
        engine.step()
    remote._context.destroy(linger=0)  # as the kernel does when it ends
    assert pool.next_end() == "the base worker is gone"
    pool.close()


def two_steps_on(engine, job, brought):
    """Begin a job; its future."""
    future = engine.add(job, None, brought)
    while not engine.running or engine.running[0].step < 2:
        engine.step()
    return future


def an_engine(recorder, **options):
    engine = Engine(max_slots=8, max_rows=16, slo_s=60, **options)
    engine.attach(recorder)
    return engine
