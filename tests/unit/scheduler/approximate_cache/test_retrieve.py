import asyncio
from dataclasses import replace

import pytest

from core.errors import NoPlan
from core.latents import Lender
from core.placement import Answer, Placement, PlacementQuery
from scheduler.approximate_cache.eviction import EvictionLedger
from scheduler.approximate_cache.finder import Finder
from scheduler.approximate_cache.hit_rates import HitRates
from scheduler.approximate_cache.retrieve import Retrieval
from scheduler.approximate_cache.strategy import StrategySwitch
from scheduler.metrics import Metrics
from scheduler.placement.placer import from_noise
from storage.fakes import MemoryVectors
from tests.unit.scheduler.fakes import FakeEmbedder, a_lender, a_query

NEEDED = {10: 0.5, 20: 0.6}
SKIPPED = Placement(queue="gen.base", model="base", level="base@20", skipped_steps=20)
WHOLE = Placement(queue="gen.base", model="base", level="base@0")


class World:
    """A retrieval over fakes; it knows the lenders it is given."""

    def __init__(self, *, budget_s: float = 5.0, is_shared: bool = False) -> None:
        self.embedder, self.index = FakeEmbedder(), MemoryVectors()
        self.ledger, self.hits, self.metrics = EvictionLedger(), HitRates(["base@20"]), Metrics()
        self.switch = StrategySwitch()
        finder = Finder(self.embedder, self.index, min_similarity=NEEDED, is_shared=is_shared)
        self.retrieval = Retrieval(
            finder,
            ledger=self.ledger,
            hits=self.hits,
            budget_s=budget_s,
            switch=self.switch,
            metrics=self.metrics,
            clock=lambda: 50.0,
        )

    def lend(self, *lenders: Lender) -> None:
        self.index.add(lenders, self.embedder.embed([lender.prompt for lender in lenders]))
        self.ledger.add(lenders)

    async def start(self, *queries: PlacementQuery, placed: Answer = SKIPPED) -> list[Answer]:
        return await self.retrieval.start(queries, [placed] * len(queries))


async def test_a_job_starts_from_its_nearest_neighbour_at_its_own_k() -> None:
    world = World()
    world.lend(a_lender("far", "a red square"), a_lender("near", "a red circle here"))
    (placed,) = await world.start(a_query("a red circle"))
    assert isinstance(placed, Placement)
    assert placed.start is not None
    assert placed.start.key == "latents/shop/near/20.safetensors"
    assert placed.start.similarity == pytest.approx(3 / 12**0.5, abs=1e-4)
    assert replace(placed, start=None) == SKIPPED


@pytest.mark.parametrize(
    "query",
    [
        a_query("a blue square there"),
        a_query(exact=True),
        a_query(tenant="bank"),
        a_query(tenant=None),
        replace(a_query(), terms=()),
        a_query("a red circle", "tiny"),
    ],
    ids=["unlike", "exact", "of another tenant", "of nobody", "on no terms", "another model"],
)
async def test_a_job_without_a_neighbour_gets_every_step_of_the_same_model(
    query: PlacementQuery,
) -> None:
    world = World()
    world.lend(a_lender("near"))
    assert await world.start(query) == [WHOLE]


async def test_where_the_nearest_is_too_far_for_its_k_a_job_skips_fewer_steps() -> None:
    world = World()
    world.lend(a_lender("near", "a red square there", skips=(10, 20, 25)))
    (placed,) = await world.start(a_query("a red circle"))
    assert isinstance(placed, Placement)
    assert placed.start is not None
    assert (placed.level, placed.skipped_steps) == ("base@10", 10)
    assert placed.start.key == "latents/shop/near/10.safetensors"
    assert 0.5 <= placed.start.similarity < 0.6
    assert world.hits.rate("base@20") == 0.0, "the K that was planned is a miss"


async def test_latents_that_lack_its_k_do_not_do() -> None:
    world = World()
    world.lend(a_lender("late", skips=(25,)))
    assert await world.start(a_query()) == [WHOLE]


async def test_tenants_share_where_that_is_set() -> None:
    world = World(is_shared=True)
    world.lend(a_lender("near", tenant="bank"))
    (placed,) = await world.start(a_query())
    assert isinstance(placed, Placement)
    assert placed.start is not None
    assert placed.start.key.startswith("latents/bank/")


async def test_jobs_at_k_0_and_those_without_a_place_are_left_alone() -> None:
    world = World()
    world.embedder.is_broken = True
    nobody = NoPlan("nobody")
    assert await world.start(a_query(), placed=WHOLE) == [WHOLE]
    assert await world.start(a_query(), placed=nobody) == [nobody]
    assert from_noise([SKIPPED, WHOLE, nobody]) == [WHOLE, WHOLE, nobody]


async def test_a_broken_encoder_or_index_costs_the_start_and_not_the_job() -> None:
    world = World()
    world.lend(a_lender("near"))
    world.embedder.is_broken = True
    assert await world.start(a_query(), a_query()) == [WHOLE, WHOLE]
    world.embedder.is_broken = False
    assert await world.start(a_query()) != [WHOLE]


async def test_who_is_slow_is_not_waited_for_and_not_asked_again_meanwhile() -> None:
    world = World(budget_s=0.05)
    world.lend(a_lender("near"))
    world.embedder.num_asked = 0
    world.embedder.may_answer.clear()
    assert await world.start(a_query()) == [WHOLE]
    assert await world.start(a_query()) == [WHOLE]
    async with asyncio.timeout(60.0):
        while not world.embedder.num_asked:
            await asyncio.sleep(0.01)
    assert world.embedder.num_asked == 1
    world.embedder.may_answer.set()
    async with asyncio.timeout(60.0):
        while await world.start(a_query()) == [WHOLE]:
            await asyncio.sleep(0.01)


async def test_what_is_found_in_time_counts_though_the_rest_is_not() -> None:
    world = World(budget_s=2.5)  # the first call may take as long, the second takes 3 s
    world.lend(a_lender("near"))
    world.embedder.slow_from, world.embedder.num_asked = 2, 0
    placed = await world.start(*[a_query()] * 40)
    started = [each for each in placed if each != WHOLE]
    assert 0 < len(started) < 40


async def test_every_lookup_is_counted_and_the_lender_s_use_noted() -> None:
    world = World()
    world.lend(a_lender("near", num_bytes=1))
    before = world.ledger._entries["near"].benefit(50.0)
    await world.start(a_query(), a_query("a blue square there"))
    text = world.metrics.render().decode()
    assert 'atelier_cache_hits_total{cache="latents",tier="index"} 1.0' in text
    assert 'atelier_cache_misses_total{cache="latents"} 1.0' in text
    assert 'atelier_cache_retrieval_seconds_count{cache="latents"} 2.0' in text
    assert world.hits.rate("base@20") > 0
    assert world.ledger._entries["near"].benefit(50.0) > before


async def test_an_index_that_fails_again_and_again_is_not_asked_any_more() -> None:
    world = World()
    world.lend(a_lender("near"))
    world.embedder.is_broken = True
    for _ in range(4):
        await world.start(a_query())
    assert world.switch.turn(50.0, is_settled=True) is not None
    world.embedder.is_broken = False
    assert await world.start(a_query()) == [WHOLE]


async def test_a_prompt_that_nobody_is_near_to_is_an_answer_all_the_same() -> None:
    world = World()
    for _ in range(9):
        await world.start(a_query())
    assert world.switch.turn(50.0, is_settled=True) is None
