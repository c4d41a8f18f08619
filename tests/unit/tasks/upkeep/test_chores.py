import asyncio

import pytest

from core.errors import StoreUnavailable
from storage.fakes import MemoryLeadership, MemoryStore
from tasks.upkeep.chores import Chore, ChoreRunner


class Counted:
    def __init__(self, error=None):
        self.count, self.error = 0, error

    async def __call__(self):
        self.count += 1
        if self.error:
            raise self.error


def runner(store, owner, *acts):
    chores = [Chore(name=f"c{i}", every_s=1.0, run=act) for i, act in enumerate(acts)]
    return ChoreRunner(MemoryLeadership(store, "upkeep", owner, 60.0), chores)


async def test_only_the_leader_works():
    store, first, second = MemoryStore(), Counted(), Counted()
    await runner(store, "a", first).turn(now=0.0)
    await runner(store, "b", second).turn(now=0.0)
    assert (first.count, second.count) == (1, 0)


async def test_a_chore_is_done_when_it_is_due_and_not_before():
    act = Counted()
    one = runner(MemoryStore(), "a", act)
    for now in (0.0, 0.5, 1.0, 1.5, 2.1):
        await one.turn(now)
    assert act.count == 3


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("a bug")])
async def test_a_chore_that_fails_does_not_keep_the_next_from_being_done(error):
    bad, good = Counted(error), Counted()
    await runner(MemoryStore(), "a", bad, good).turn(now=0.0)
    assert (bad.count, good.count) == (1, 1)


async def test_whoever_stops_lets_somebody_else_lead_at_once():
    store, act = MemoryStore(), Counted()
    leaving = runner(store, "a", Counted())
    running = asyncio.create_task(leaving.run())
    await asyncio.sleep(0.01)
    leaving.stop()
    await running
    await runner(store, "b", act).turn(now=0.0)
    assert act.count == 1
