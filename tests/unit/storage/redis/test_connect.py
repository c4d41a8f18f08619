import asyncio
import socket

import pytest
import redis
import uvloop
from redis.exceptions import MasterDownError

from core.errors import StoreRefused, StoreUnavailable
from storage.redis.connect import ask, connect, connect_sync, converting_errors, end
from storage.redis.keys import PRIORITIES, list_of, waiting_key

REFUSALS = [
    redis.ReadOnlyError("replica"),
    redis.OutOfMemoryError("full"),
    MasterDownError("Link with MASTER is down"),
    redis.ResponseError("NOREPLICAS Not enough good replicas to write. script: 1, on @user:1."),
    redis.ResponseError("MISCONF cannot persist"),
]
UNKNOWN = [
    redis.ConnectionError("refused"),
    redis.TimeoutError("slow"),
    redis.BusyLoadingError("loading"),
    redis.ResponseError("BUSY Redis is busy running a script"),
    redis.ResponseError("UNBLOCKED instance state changed (master -> replica?)"),
    OSError("network is unreachable"),
]


@pytest.mark.parametrize("error", REFUSALS + UNKNOWN, ids=lambda e: type(e).__name__)
def test_a_server_that_cannot_serve_is_unavailable(error: Exception) -> None:
    with pytest.raises(StoreUnavailable) as caught, converting_errors():
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", REFUSALS + UNKNOWN, ids=lambda e: type(e).__name__)
async def test_who_sends_one_command_learns_whether_nothing_was_written(error: Exception) -> None:
    class Answering:
        async def execute_command(self, *words: object) -> None:
            raise error

    with pytest.raises(StoreUnavailable) as caught:
        await ask(Answering(), "SET", "a", 1)  # type: ignore[arg-type]
    assert isinstance(caught.value, StoreRefused) == (error in REFUSALS)
    with pytest.raises(StoreUnavailable) as caught, converting_errors():  # of several: some may be
        raise error
    assert type(caught.value) is StoreUnavailable


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_refusal_after_a_lost_answer_proves_nothing(lost: int) -> None:
    client = connect("redis://127.0.0.1:1/0")
    retry = client.get_retry()
    lost_ones = [redis.ConnectionError("lost")] * lost
    answers = iter([*lost_ones, redis.OutOfMemoryError("full")])
    failures = []

    async def ask_once() -> None:
        raise next(answers)

    async def fail(error: Exception) -> None:
        failures.append(error)

    assert retry is not None
    with pytest.raises(StoreUnavailable, match="full") as caught, converting_errors(StoreRefused):
        await retry.call_with_retry(ask_once, fail)
    assert type(caught.value) is (StoreUnavailable if lost else StoreRefused)
    assert len(failures) == lost
    await client.aclose()


@pytest.mark.parametrize(
    "error", [redis.ResponseError("ERR syntax"), KeyError("x"), RuntimeError("y")]
)
def test_mistakes_of_ours_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)), converting_errors():
        raise error


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_has_just_been_lost_is_unavailable_under_either_loop(loop) -> None:
    async def write() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            _, writer = await asyncio.open_connection(*server.getsockname())
            writer.transport.abort()
            await asyncio.sleep(0.01)
            with converting_errors():
                writer.writelines([b"PING"])
                await writer.drain()

    with asyncio.Runner(loop_factory=loop) as runner, pytest.raises(StoreUnavailable):
        runner.run(write())


async def test_connecting_sends_nothing() -> None:
    client, sync = connect("redis://127.0.0.1:1/0"), connect_sync("redis://127.0.0.1:1/0")
    await client.aclose()
    sync.close()


def test_lists_are_named_as_kombu_names_them() -> None:
    names = [list_of("gen.m", priority) for priority in PRIORITIES]
    assert names == ["gen.m", "gen.m\x06\x166", "gen.m\x06\x169"]
    assert waiting_key("gen.m", 6) == "waiting:gen.m\x06\x166"


async def test_a_task_that_drops_a_cancellation_is_cancelled_again() -> None:
    dropped = 0

    async def stubborn() -> None:
        nonlocal dropped
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if dropped:
                    raise
                dropped += 1

    async def broken() -> None:
        raise RuntimeError("long ago")

    tasks = [asyncio.create_task(stubborn()), asyncio.create_task(broken())]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await end(tasks)
    assert dropped == 1
    assert all(task.done() for task in tasks)
