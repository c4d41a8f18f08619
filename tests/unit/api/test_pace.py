"""A crowd is served a few at a time, and nobody waits behind all of it."""

import asyncio

from api.pace import MAX_IN_TURN, FairQueue


async def turns(count=1):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_few_calls_wait_for_nothing():
    done, pace = [], FairQueue(asyncio.get_running_loop())
    for at in range(MAX_IN_TURN):
        pace.call("a", lambda at=at: done.append(at))
    assert done == list(range(MAX_IN_TURN))


async def test_a_crowd_is_called_in_order_a_few_in_each_turn():
    done, pace = [], FairQueue(asyncio.get_running_loop())
    for at in range(10 * MAX_IN_TURN):
        pace.call("a", lambda at=at: done.append(at))
    for turn in range(1, 10):
        assert done == list(range(turn * MAX_IN_TURN))
        await turns()
    await turns()
    assert done == list(range(10 * MAX_IN_TURN))


async def test_another_client_does_not_wait_behind_a_crowd():
    done, pace = [], FairQueue(asyncio.get_running_loop())
    for _ in range(1000):
        pace.call("a", lambda: done.append("a"))
    pace.call("b", lambda: done.append("b"))
    await turns()
    assert "b" in done and len(done) <= 2 * MAX_IN_TURN
    await turns(1000 // MAX_IN_TURN + 1)
    assert len(done) == 1001


async def test_a_call_that_calls_again_waits_its_turn():
    done, pace = [], FairQueue(asyncio.get_running_loop())

    def again():
        done.append(1)
        pace.call("a", again)

    pace.call("a", again)
    before = len(done)
    await turns(3)
    assert before <= MAX_IN_TURN and len(done) <= 5 * MAX_IN_TURN
