from collections.abc import Sequence

import pytest

from core.errors import ObjectsUnavailable, StoreUnavailable, VectorsUnavailable
from core.latents import Lender
from scheduler.approximate_cache.eviction import CacheLimits, EvictionLedger
from scheduler.approximate_cache.maintenance import BATCH, BATCHES, CacheMaintenance, keys_of
from scheduler.metrics import Metrics
from storage.fakes import MemoryObjects, MemoryVectors
from tests.unit.scheduler.fakes import FakeEmbedder, FakeLenders, a_lender


class Objects(MemoryObjects):
    """Objects that can be away."""

    is_away = False

    def delete(self, keys: object) -> None:
        if self.is_away:
            raise ObjectsUnavailable("away")
        super().delete(keys)  # type: ignore[arg-type]


class World:
    """Cache maintenance over fakes, with room for ten thousand bytes, and a clock."""

    def __init__(self, *announced: Lender) -> None:
        self.now, self.leads = 100.0, True
        self.index, self.objects, self.ledger = MemoryVectors(), Objects(), EvictionLedger()
        self.embedder, self.new = FakeEmbedder(), FakeLenders()
        self.keeper = CacheMaintenance(
            self.ledger,
            self.embedder,
            self.index,
            new=self.new,
            objects=self.objects,
            limits=CacheLimits(num_bytes=10_000, count=100, ttl_s=1000.0),
            leads=lambda: self.leads,
            metrics=Metrics(),
            clock=lambda: self.now,
        )
        self.announce(*announced)

    def announce(self, *lenders: Lender) -> None:
        self.new.waiting += lenders
        for key in (key for lender in lenders for key in keys_of(lender)):
            self.objects.put(key, b"latents", "application/octet-stream")

    def ids(self) -> set[str]:
        return {lender.id for lender in self.index.scan()}


async def test_announced_lenders_can_be_found_from_then_on() -> None:
    world = World(*(a_lender(f"j{i}", num_bytes=10) for i in range(20)))
    await world.keeper.round()
    assert world.ids() == {f"j{i}" for i in range(20)}
    assert (world.new.waiting, world.ledger.num_bytes) == ([], 200)


async def test_beyond_the_budget_latents_go_with_their_objects() -> None:
    world = World(*(a_lender(f"j{i}", num_bytes=1000, made_at=i) for i in range(15)))
    await world.keeper.round()
    assert world.ledger.num_bytes <= 10_000
    assert world.ids() == {f"j{i}" for i in range(6, 15)}, "the longest unused go first"
    assert {key.split("/")[2] for key in world.objects.objects} == world.ids()


async def test_latents_do_not_outlive_their_time() -> None:
    world = World(a_lender("old", made_at=0.0), a_lender("young", made_at=900.0))
    await world.keeper.round()
    world.now = 1100.0
    await world.keeper.round()
    assert world.ids() == {"young"}
    assert {key.split("/")[2] for key in world.objects.objects} == {"young"}


async def test_latents_of_a_deleted_job_are_found_no_more() -> None:
    world = World(a_lender("deleted"), a_lender("kept"))
    await world.keeper.round()
    world.new.deleted = ["never lent", "deleted"]
    await world.keeper.round()
    assert world.ids() == {"kept"}
    assert (len(world.ledger), "deleted" in world.ledger) == (1, False)
    assert {key.split("/")[2] for key in world.objects.objects} == {"kept"}


async def test_a_job_that_was_deleted_before_it_was_taken_in_is_taken_out() -> None:
    world = World(*(a_lender(f"j{i}", num_bytes=1) for i in range(BATCH * BATCHES + 1)))
    last = world.new.waiting[-1].id
    world.new.deleted = [last]
    await world.keeper.round()
    assert last not in world.ids(), "it is not taken in yet"
    await world.keeper.round()
    assert world.ids() == {f"j{i}" for i in range(BATCH * BATCHES)}


async def test_a_deleted_job_is_remembered_while_the_index_is_away() -> None:
    world = World(a_lender("deleted"))
    await world.keeper.round()
    remove = world.index.remove

    def fail(ids: Sequence[str]) -> None:
        raise VectorsUnavailable("away")

    world.new.deleted, world.index.remove = ["deleted"], fail  # type: ignore[method-assign]
    with pytest.raises(VectorsUnavailable):
        await world.keeper.round()
    world.index.remove = remove  # type: ignore[method-assign]
    await world.keeper.round()
    assert world.ids() == set()


async def test_a_restart_finds_what_is_kept_and_its_budget_still_holds() -> None:
    world = World()
    kept = [a_lender(f"k{i}", num_bytes=3000) for i in range(3)]
    world.index.add(kept, world.embedder.embed([lender.prompt for lender in kept]))
    world.announce(a_lender("new", num_bytes=3000, made_at=100.0))
    await world.keeper.round()
    assert world.ledger.num_bytes == 9000
    assert "new" in world.ids()


async def test_objects_that_could_not_be_deleted_go_later() -> None:
    world = World(a_lender("large", num_bytes=20_000))
    world.objects.is_away = True
    with pytest.raises(ObjectsUnavailable):
        await world.keeper.round()
    assert world.ids() == set()
    world.objects.is_away = False
    await world.keeper.round()
    assert world.objects.objects == {}


async def test_what_could_not_be_taken_in_is_taken_in_later() -> None:
    world = World(a_lender("a"))
    world.embedder.is_broken = True
    with pytest.raises(RuntimeError):
        await world.keeper.round()
    world.embedder.is_broken = False
    await world.keeper.round()
    assert world.ids() == {"a"}


async def test_of_several_schedulers_one_keeps_the_index() -> None:
    world = World(a_lender("a"))
    world.leads = False
    await world.keeper.round()
    assert world.ids() == set()
    assert len(world.new.waiting) == 1
    theirs = a_lender("theirs")
    world.index.add([theirs], world.embedder.embed([theirs.prompt]))
    world.leads = True
    await world.keeper.round()
    assert world.ids() == {"a", "theirs"}
    assert len(world.ledger) == 2


async def test_whatever_fails_the_rounds_go_on() -> None:
    world = World()

    async def take(count: int) -> list[Lender]:
        raise StoreUnavailable("down")

    world.new.take = take  # type: ignore[method-assign]
    await world.keeper._try_round()
    world.embedder.is_broken = True
    world.new = FakeLenders(a_lender("a"))
    world.keeper._new = world.new
    await world.keeper._try_round()
