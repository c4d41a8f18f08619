"""One scheduler in its surroundings, for tests of the plan loop."""

from dataclasses import replace

from core.application import Application
from core.boards.plan import Plan
from core.placement import PlacementQuery
from scheduler.allocation.allocate import allocate
from scheduler.allocation.registry import Policy
from scheduler.approximate_cache.hit_rates import HitRates
from scheduler.approximate_cache.strategy import StrategySwitch
from scheduler.metrics import Metrics
from scheduler.placement.placer import Placer
from scheduler.planning.level_estimates import Outlook
from scheduler.planning.loop import PlanLoop
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import EVERY, LevelFamily, Measured
from scheduler.routing.classify import OneClass
from storage.fakes import MemoryBoard, MemoryDemand, MemoryLeadership
from tests.unit.scheduler.fakes import (
    FakeBoard,
    FakeFleet,
    FakeLeader,
    FakeRegistry,
    Lease,
    a_model,
    a_profile,
    a_query,
    a_worker,
)

PROFILE = a_profile(a_model("base"), a_model("tiny", quality=0.6))
CACHING = replace(
    a_profile(a_model("base", step_s=0.02), a_model("tiny", quality=0.6, step_s=0.005)),
    measured=Measured(
        families={
            EVERY: LevelFamily(
                levels=("tiny@0", "base@25", "base@0"),
                shares={"base@0": 1.0},
                quality={"any": {"tiny@0": 0.6, "base@25": 0.9, "base@0": 1.0}},
            )
        }
    ),
)
PERIOD_S = 10.0
AVATARS = Application(name="avatars", tenant="t", models=("base",))


class World:
    """One scheduler, its surroundings, and a clock that moves when told to."""

    def __init__(
        self,
        *workers: str,
        board: FakeBoard | MemoryBoard | None = None,
        lease: Lease | None = None,
        leader: MemoryLeadership | None = None,
        peers: MemoryDemand | None = None,
        policy: Policy = allocate,
        hits: HitRates | None = None,
        profile: Profile | None = None,
    ) -> None:
        self.registry = FakeRegistry()
        self.now = 1000.0
        self.fleet = FakeFleet(*(a_worker(name) for name in workers))
        self.board = board or FakeBoard()
        self.lease = lease or Lease()
        self.leader = leader or FakeLeader(self.lease)
        self.metrics = Metrics()
        self.profile = profile or (PROFILE if hits is None else CACHING)
        self.placer = Placer(self.profile.models, OneClass())
        self.switch = StrategySwitch()
        self.loop = PlanLoop(
            self.placer,
            Outlook(self.profile, self.metrics, hits=hits, switch=self.switch),
            policy,
            policy_name="atelier",
            fleet=self.fleet,
            board=self.board,
            leader=self.leader,
            period_s=PERIOD_S,
            metrics=self.metrics,
            registry=self.registry,
            peers=peers,
            clock=lambda: self.now,
        )

    async def round(self, *, after_s: float = 0.5) -> Plan:
        self.now += after_s
        await self.loop.round()
        return self.placer.plan

    def arrive(self, *, rate: float) -> None:
        """Have had so many jobs a second for a minute that may start from latents."""
        query = a_query("a cat", *self.profile.models)
        for second in range(60):
            for _ in range(round(rate * (second + 1)) - round(rate * second)):
                self.placer.place([query], self.now - 60 + second)

    def ask(self, model: str, application: str | None = None) -> object:
        query = PlacementQuery(prompt="a cat", models=(model,), application=application)
        return self.placer.place([query], self.now)[0]


def a_caching_world(**parts: object) -> World:
    """Two workers, twice as much asked of them as they can do at K = 0, and latents for all."""
    hits = HitRates(["base@25"])
    for _ in range(500):
        hits.observe("base@25", True)
    world = World(hits=hits, **parts)  # type: ignore[arg-type]
    world.fleet.reports = [a_worker(name, "base") for name in ("w0", "w1")]
    world.arrive(rate=4.2)
    return world


def levels_of(plan: Plan) -> set[str]:
    return {level for row in plan.pasm for level in row.shares}
