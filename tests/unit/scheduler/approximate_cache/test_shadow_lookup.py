import asyncio
from dataclasses import replace

import pytest

from core.levels.level import resumed_levels
from core.placement import PlacementQuery
from scheduler.approximate_cache.finder import Finder
from scheduler.approximate_cache.hit_rates import HitRates
from scheduler.approximate_cache.shadow_lookup import WAITING, ShadowLookup
from scheduler.approximate_cache.strategy import StrategySwitch
from storage.fakes import MemoryVectors
from tests.unit.scheduler.fakes import FakeEmbedder, a_lender, a_model, a_query, some_terms

MODELS = {name: a_model(name) for name in ("base", "tiny")}
LEVELS = [level.name for model in MODELS.values() for level in resumed_levels(model)]
NEEDED = {5: 0.6, 10: 0.6, 15: 0.6, 20: 0.6, 25: 0.9}


class World:
    def __init__(self, *, budget_s: float = 5.0) -> None:
        self.models = dict(MODELS)
        self.embedder, self.index = FakeEmbedder(), MemoryVectors()
        self.hits = HitRates(LEVELS)
        finder = Finder(self.embedder, self.index, min_similarity=NEEDED, is_shared=False)
        self.switch = StrategySwitch()
        self.watch = ShadowLookup(
            finder,
            self.hits,
            self.models,
            switch=self.switch,
            budget_s=budget_s,
            clock=lambda: 50.0,
        )

    def lend(self, name: str, model: str, skips: tuple[int, ...]) -> None:
        lender = a_lender(name, terms=some_terms(model), skips=skips)
        self.index.add([lender], self.embedder.embed([lender.prompt]))

    async def see(self, *queries: PlacementQuery, times: int = 20) -> None:
        for _ in range(times):
            self.watch.note(queries)
            await self.watch.learn()


async def test_a_plan_without_k_learns_what_there_is_to_start_from() -> None:
    world = World()
    world.lend("j1", "base", (15, 20, 25))
    await world.see(a_query())
    assert world.hits.rate("base@20") == world.hits.rate("base@15") > 0.5
    assert world.hits.rate("base@10") == 0


async def test_the_more_steps_are_skipped_the_nearer_a_neighbour_must_be() -> None:
    world = World()
    world.lend("j1", "base", (20, 25))
    await world.see(a_query("a red circle here"))
    assert world.hits.rate("base@20") > 0.5
    assert world.hits.rate("base@25") == 0


async def test_every_model_that_may_make_a_prompt_has_its_turn() -> None:
    world = World()
    world.lend("j1", "base", (25,))
    world.lend("j2", "tiny", (25,))
    await world.see(a_query("a red circle", "base", "tiny"), times=40)
    assert world.hits.rate("base@25") > 0.5
    assert world.hits.rate("tiny@25") > 0.5


@pytest.mark.parametrize(
    "query", [a_query(exact=True), replace(a_query(), terms=())], ids=["exact", "an edit, say"]
)
async def test_jobs_that_start_from_noise_alone_say_nothing(query: PlacementQuery) -> None:
    world = World()
    world.lend("j1", "base", (25,))
    await world.see(a_query())
    before = world.hits.rate("base@25")
    await world.see(query)
    assert world.hits.rate("base@25") == before


async def test_a_lookup_that_takes_too_long_is_a_miss() -> None:
    world = World(budget_s=0.001)
    world.lend("j1", "base", (25,))
    world.embedder.pause_s = 0.01
    await world.see(a_query(), times=4)
    assert world.hits.rate("base@25") == 0
    assert world.switch.turn(50.0, is_settled=True) is not None


async def test_a_burst_is_not_worked_off_later() -> None:
    world = World()
    queries = [a_query()] * (2 * WAITING)
    world.watch.note(queries)
    assert len(world.watch._waiting) == WAITING


async def test_a_model_that_is_removed_meanwhile_says_nothing() -> None:
    world = World()
    world.lend("j1", "base", (25,))
    world.watch.note([a_query()])
    del world.models["base"]
    await world.watch.learn()
    assert world.hits.rate("base@25") == 0


async def test_whatever_fails_prompts_are_looked_up_on() -> None:
    world, failed = World(), asyncio.Event()

    def fail(level: str, is_hit: bool) -> None:
        failed.set()
        raise RuntimeError("a bug")

    world.hits.observe = fail  # type: ignore[method-assign]
    world.watch.note([a_query()])
    running = asyncio.create_task(world.watch.run())
    await failed.wait()
    assert not running.done()
    running.cancel()
