"""Commands of many tasks share trips: each gets its own answer, whatever becomes of the others."""

import asyncio

import pytest
from redis.exceptions import ResponseError

from cli.stack.ports import free_port
from core.errors import StoreUnavailable
from storage.redis.connect import connect
from storage.redis.pipelined import MAX_IN_TRIP, Pipelined
from tests.contract.house import RedisHouse


async def test_everybody_gets_the_answer_to_what_he_asked(real: RedisHouse) -> None:
    pipelined = Pipelined(real.client)
    for _ in range(2):  # more than one trip holds, and again when all have gone
        asked = [pipelined.ask("ECHO", str(at)) for at in range(3 * MAX_IN_TRIP + 1)]
        assert [int(each) for each in await asyncio.gather(*asked)] == list(range(len(asked)))


async def test_those_asked_together_share_a_trip(real: RedisHouse) -> None:
    trips = 0

    class Counting:
        def pipeline(self, *, transaction: bool) -> object:
            nonlocal trips
            trips += 1
            return real.client.pipeline(transaction=transaction)

    pipelined = Pipelined(Counting())  # type: ignore[arg-type]
    await asyncio.gather(*(pipelined.ask("ECHO", "a") for _ in range(2 * MAX_IN_TRIP)))
    assert trips == 2


async def test_what_is_wrong_with_one_command_is_told_to_who_asked_it(real: RedisHouse) -> None:
    await real.client.set("text", "a")
    pipelined = Pipelined(real.client)
    asked = (pipelined.ask("GET", "text"), pipelined.ask("HGET", "text", "a"))
    answer, error = await asyncio.gather(*asked, return_exceptions=True)
    assert answer == b"a"
    assert isinstance(error, ResponseError)


async def test_who_leaves_takes_nobody_with_him(real: RedisHouse) -> None:
    pipelined = Pipelined(real.client)
    asked = [asyncio.create_task(pipelined.ask("ECHO", str(at))) for at in range(6)]
    await asyncio.sleep(0)
    for task in asked[::2]:
        task.cancel()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [int(each) for each in answers[1::2] if isinstance(each, bytes)] == [1, 3, 5]
    assert await pipelined.ask("ECHO", "after") == b"after"


async def test_a_store_that_is_away_is_told_to_all() -> None:
    redis = connect(f"redis://127.0.0.1:{free_port()}/0")
    pipelined = Pipelined(redis)
    asked = (pipelined.ask("ECHO", "a") for _ in range(3))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in answers] == [StoreUnavailable] * 3
    with pytest.raises(StoreUnavailable):
        await pipelined.ask("ECHO", "again")
    await redis.aclose()
