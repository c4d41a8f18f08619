"""Models that jobs wait for take turns: the plan loop beside workers that load, in virtual time."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.boards.fleet import QueueDepth
from core.placement import queue_of
from scheduler.routing.model_ready import Foresight
from scheduler.routing.model_turns import patience_s, seated, turn_s
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker
from tests.unit.scheduler.world import World

TICK_S = 0.5
#: A worker's state is seen at one look, planned for at the next and obeyed at the third.
LAG_S = 3 * TICK_S
SERVED = 4  #: jobs that a worker ends in a tick


@dataclass
class Bench:
    """A worker that serves what it holds while it loads the next."""

    held: str = ""
    loading: str = ""
    loaded_at: float = 0.0


class Shop:
    """Workers, queues, and who waits how long for a model."""

    def __init__(self, loads_s: Mapping[str, float], workers: int) -> None:
        models = [
            a_model(m, quality=1 - i / 10, load_s=s) for i, (m, s) in enumerate(loads_s.items())
        ]
        self.loads_s = loads_s
        self.world = World(*(f"w{i}" for i in range(workers)), profile=a_profile(*models))
        self.benches = {f"w{i}": Bench() for i in range(workers)}
        self.queues: Counter[str] = Counter()
        self.since: dict[
            str, float
        ] = {}  #: model that jobs wait for and nobody holds -> since when
        self.waits: dict[str, float] = dict.fromkeys(loads_s, 0.0)  #: the longest of each
        self.loads = 0

    @property
    def now(self) -> float:
        return self.world.now

    def ask(self, model: str, count: int) -> None:
        for _ in range(count):
            placed = self.world.ask(model)
            assert placed.queue == queue_of(model)  # type: ignore[attr-defined]
        self.queues[model] += count

    async def tick(self) -> None:
        plan = await self.world.round(after_s=TICK_S)
        for name, bench in self.benches.items():
            self._turn(bench, plan.assignments.get(name, bench.held))
        held = {bench.held for bench in self.benches.values()}
        for model, count in self.queues.items():
            if model in held or not count:
                self.since.pop(model, None)
            elif count:
                self.since.setdefault(model, self.now)
                self.waits[model] = max(self.waits[model], self.now - self.since[model])
        busy = {m for m, count in self.queues.items() if count}
        for bench in self.benches.values():
            self.queues[bench.held] = max(0, self.queues[bench.held] - SERVED)
        self._report(busy)

    def _turn(self, bench: Bench, target: str) -> None:
        if bench.loading and self.now >= bench.loaded_at:
            bench.held, bench.loading = bench.loading, ""
        if not bench.loading and target != bench.held:
            bench.loading, bench.loaded_at = target, self.now + self.loads_s[target]
            self.loads += 1

    def _report(self, busy: set[str]) -> None:
        self.world.fleet.reports = tuple(
            a_worker(name, *([b.held] if b.held else []), running=8 * (b.held in busy))
            for name, b in self.benches.items()
        )
        self.world.fleet.waiting = tuple(
            QueueDepth(
                queue=queue_of(m), waiting=count, oldest_s=self.now - self.since.get(m, self.now)
            )
            for m, count in self.queues.items()
        )

    def bound_s(self, model: str) -> float:
        """Within which a model that jobs wait for is held, whatever else is asked."""
        others = sorted(
            (turn_s(s) + LAG_S for m, s in self.loads_s.items() if m != model), reverse=True
        )
        rounds = math.ceil(len(others) / len(self.benches))
        own_s = self.loads_s[model]
        return patience_s(own_s) + sum(others[:rounds]) + own_s + LAG_S


async def opened(shop: Shop) -> Shop:
    """Let every worker load what the first plan gives it."""
    for _ in range(math.ceil(2 * max(shop.loads_s.values()) / TICK_S) + 4):
        await shop.tick()
    shop.loads = 0
    return shop


@settings(max_examples=12, deadline=None)
@given(
    loads=st.lists(st.sampled_from([0.2, 0.5, 2.0, 6.0]), min_size=2, max_size=6),
    workers=st.integers(1, 3),
    bursts=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from([1, 3, 200]), st.integers(1, 40)),
        min_size=1,
        max_size=12,
    ),
)
async def test_every_model_that_jobs_wait_for_is_held_in_time_whatever_else_is_asked(
    loads: Sequence[float], workers: int, bursts: Sequence[tuple[int, int, int]]
) -> None:
    shop = await opened(Shop({f"m{i}": s for i, s in enumerate(loads)}, workers))
    for number, count, ticks in bursts:
        shop.ask(f"m{number % len(loads)}", count)
        for _ in range(ticks):
            shop.ask("m0", 2 * workers)  # all the time
            await shop.tick()
    for model, waited_s in shop.waits.items():
        assert waited_s <= shop.bound_s(model), (model, shop.waits)


async def test_one_worker_serves_six_models_that_are_all_asked_for_more_than_it_can_make() -> None:
    shop = await opened(Shop({f"m{i}": 0.5 for i in range(6)}, 1))
    for _ in range(360):
        for model in shop.loads_s:
            shop.ask(model, 2)
        await shop.tick()
    for model, waited_s in shop.waits.items():
        assert waited_s <= shop.bound_s(model) < 45.0
    seconds = 360 * TICK_S
    assert shop.loads * 0.5 <= 0.12 * seconds  # the rest of its time it makes images


async def test_a_worker_without_work_changes_its_model_for_the_first_job_that_comes() -> None:
    shop = await opened(Shop({"m0": 0.5, "m1": 20.0}, 1))
    assert shop.benches["w0"].held == "m0"
    shop.ask("m1", 1)
    began = shop.now
    while shop.queues["m1"]:
        await shop.tick()
    assert shop.now - began <= 20.0 + LAG_S + TICK_S


@settings(max_examples=15, deadline=None)
@given(
    loads=st.lists(st.sampled_from([0.5, 2.0, 6.0]), min_size=2, max_size=5),
    workers=st.integers(1, 2),
    asked=st.lists(st.integers(0, 4), max_size=4),
    busy=st.booleans(),
)
async def test_when_a_model_is_ready_is_foreseen(
    loads: Sequence[float], workers: int, asked: Sequence[int], busy: bool
) -> None:
    shop = await opened(Shop({f"m{i}": s for i, s in enumerate(loads)}, workers))
    for number in asked:
        shop.ask(f"m{number % len(loads)}", 40)
    for _ in range(2):
        shop.ask("m0", 40 * busy)
        await shop.tick()
    last = f"m{len(loads) - 1}"
    shop.ask(last, 1)
    shop._report({m for m, count in shop.queues.items() if count})
    if any(bench.held == last for bench in shop.benches.values()):
        return
    found = Foresight(
        models=shop.world.profile.models,
        fleet=shop.world.fleet.reports,
        plan=shop.world.placer.plan,
        depths=shop.world.fleet.waiting,
        now=shop.now,
    ).ready(last)
    assert found is not None
    began = shop.now
    while all(bench.held != last for bench in shop.benches.values()):
        shop.ask("m0", SERVED * workers * busy)
        await shop.tick()
    came_s = shop.now - began
    assert came_s <= found.in_s + LAG_S * len(loads)
    # A worker may end its jobs before its turn does, and another model may not need its turn.
    others_s = sum(turn_s(s) + LAG_S for s in loads)
    assert came_s >= found.in_s - others_s


def test_whoever_comes_first_is_seated_and_as_many_as_can_be() -> None:
    able = {"a": ["w0", "w1"], "b": ["w0"], "c": ["w0", "w1"], "d": []}
    assert seated(["a", "b", "c", "d"], able) == {"a", "b"}
    assert seated(["c", "d", "a", "b"], able) == {"c", "a"}


@pytest.mark.parametrize(
    ("load_s", "patience", "turn"), [(0.1, 5.0, 5.0), (1.0, 10.0, 10.0), (60.0, 30.0, 120.0)]
)
def test_turns_are_long_beside_loads_and_short_beside_a_minute(
    load_s: float, patience: float, turn: float
) -> None:
    assert (patience_s(load_s), turn_s(load_s)) == (patience, turn)
