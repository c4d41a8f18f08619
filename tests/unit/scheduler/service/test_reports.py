import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from core.boards.fleet import FleetChange, QueueDepth, Worker
from core.errors import StoreUnavailable
from scheduler.service.reports import SLICE, Reports, SharedFleet
from storage.fakes import MemoryFleet, MemoryFleetReader, MemoryStore
from tests.unit.scheduler.fakes import a_worker

DEPTHS = [QueueDepth(queue="gen.m", waiting=2, oldest_s=1.0)]


class World:
    """A fleet in memory that cannot be read while there is an error."""

    def __init__(self, *workers: Worker) -> None:
        self.store = MemoryStore()
        self.board = MemoryFleet(self.store)
        self.error: Exception | None = None
        self._reader = MemoryFleetReader(self.store, stale_s=60.0)
        self.fleet = SharedFleet(self, self._depths)  # type: ignore[arg-type]
        for worker in workers:
            self.board.report(worker)

    async def look(self) -> FleetChange:
        if self.error is not None:
            raise self.error
        return await self._reader.look()

    async def _depths(self) -> Sequence[QueueDepth]:
        return DEPTHS


async def test_what_is_reported_is_passed_on_and_grows_stale_while_nobody_can_read_it() -> None:
    world, heard, measured, now = World(a_worker("w@h", "m")), [], [], [0.0]
    reports = Reports(
        world.fleet,
        [lambda change, at: heard.append((change, at))],
        lambda depths, at: measured.append((depths, at)),
        clock=lambda: now[0],
    )
    await reports.look()
    assert [w.name for change, _ in heard for w in change.workers] == ["w@h"]
    assert measured == [(DEPTHS, 0.0)]
    for error in (StoreUnavailable("away"), KeyError("whatever")):
        world.error, now[0] = error, 10.0
        await reports.look()
    assert len(measured) == 1
    assert {at for _, at in heard} == {0.0}
    world.error = None
    world.board.retire("w@h")
    await reports.look()
    assert heard[-1] == (FleetChange(gone=("w@h",)), 10.0), "and then it is known to be fresh"


async def test_whoever_reads_first_who_hears_of_changes_hears_of_all() -> None:
    world = World(a_worker("w2@h", "m"), a_worker("w1@h", "m"))
    first = await world.fleet.workers()
    assert [worker.name for worker in first] == ["w1@h", "w2@h"]
    assert await world.fleet.workers() is first, "while nothing changes it is the same"
    world.board.report(a_worker("w2@h", "m", running=2))
    assert [worker.running for worker in await world.fleet.workers()] == [0, 2]
    world.board.retire("w1@h")
    assert len(await world.fleet.workers()) == 1
    change = await world.fleet.change()
    assert ([w.running for w in change.workers], change.gone) == ([2], ("w1@h",))
    assert (await world.fleet.change()).is_empty
    world.error = StoreUnavailable("away")
    for ask in (world.fleet.workers, world.fleet.change):
        with pytest.raises(StoreUnavailable):
            await ask()


async def test_others_have_their_turn_while_many_changes_are_passed_on() -> None:
    workers = [replace(a_worker(f"w{n}@h", "m"), running=1) for n in range(3 * SLICE)]
    world, heard, turns = World(*workers), list[int](), list[int]()
    reports = Reports(
        world.fleet, [lambda change, at: heard.append(len(change.workers))], lambda *_: None
    )
    looking = asyncio.create_task(reports.look())
    while not looking.done():
        turns.append(sum(heard))
        await asyncio.sleep(0)
    assert max(heard) == SLICE and sum(heard) == 3 * SLICE
    assert {SLICE, 2 * SLICE} <= set(turns)
