"""A new kind of approximation is followed from its row to the image and the record of a job.

Caching of features stands for any: every second step takes over what the last one predicted.
Nothing but its class, its row and a runner that can do it knows of it.
"""

import asyncio
from dataclasses import dataclass, replace

import pytest

from api.routes.jobs import sign_all, view_of
from api.services.services import PublicUrls
from classifier.training.level_kernel import SHARED, kin
from core.boards.demand import Stream
from core.boards.plan import Plan
from core.codec import decode, encode
from core.job import Job, JobStatus
from core.levels import approximation as approximations
from core.levels.approximation import EXACT, Approximation, skipping
from core.levels.level import Level, levels_of, resumed_levels
from core.placement import Placement, PlacementQuery
from scheduler.allocation.allocate import allocate
from scheduler.placement.overflow import Overflow
from scheduler.placement.placer import Placer, from_noise
from scheduler.planning.decide import Decision, decide
from scheduler.planning.snapshot import Snapshot
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import EVERY, SMALLER, LevelFamily, Measured
from scheduler.routing.classify import ANY, OneClass
from scheduler.routing.route import Router
from scheduler.routing.stations import Work, work_of
from tests.jobs import a_job, a_request
from tests.rig import new_job
from tests.unit.scheduler.fakes import a_model, a_worker
from tests.unit.worker.house import House
from worker.diffusion.runner import Sample
from worker.engine.batch import rank
from worker.engine.slot import Slot, Ticket
from worker.families.noop import NoopRunner
from worker.jobs import pending_work


@dataclass(frozen=True, slots=True)
class StepCaching(Approximation):
    """All steps but every n-th take over what the one before predicted."""

    every: int

    kept_quality = 0.9

    @classmethod
    def read(cls, code):
        known, _, every = code.partition("every")
        return cls(int(every)) if not known and every.isdecimal() else None

    @classmethod
    def offered(cls, model):
        return (cls(2),)

    @property
    def code(self):
        return f"every{self.every}"

    @property
    def share_of_steps(self):
        return 1.0 / self.every


class CachingRunner(NoopRunner):
    """Counts the calls of a model that would cache what it predicts."""

    calls = 0

    def approximate(self, sample, approximation):
        assert isinstance(approximation, StepCaching)
        sample.reached = approximation

    def forward(self, samples):
        CachingRunner.calls += any(self._is_due(sample) for sample in samples)
        return super().forward(samples)

    def advance(self, samples, predictions):
        super().advance(samples, [each + 1 for each in predictions])  # a latent counts the steps

    def _is_due(self, sample):
        return sample.reached == EXACT or sample.latent[0] % sample.reached.every == 0


K25 = skipping(25)
BASE = a_model("base", step_s=0.1, quality=0.8)  # 30 steps: 3 s an image
CACHED = Level(model="base", approximation=StepCaching(2))
QUERY = PlacementQuery(prompt="a cat", models=("base",), slo_s=60.0)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    Level.read.cache_clear()
    monkeypatch.setattr(approximations, "KINDS", (*approximations.KINDS, StepCaching))
    yield
    Level.read.cache_clear()


@pytest.fixture
def profile() -> Profile:
    return Profile(models={"base": BASE})


@pytest.fixture
def decision(profile) -> Decision:
    """One worker is asked for as much as it makes of exact images, and half of that beside."""
    asked = {Stream(application="default", models=("base",), is_full=True): 0.45}
    return decide(Snapshot(workers=(a_worker("w1", "base"),), rates=asked), profile, allocate)


@pytest.fixture
def plan(decision) -> Plan:
    about = {"version": 1, "fence": 1, "made_at": 0.0, "policy": "atelier"}
    plan = Plan(
        **about,
        assignments=decision.assignments,
        pasm=decision.pasm,
        levels=decision.levels,
        costs=decision.costs,
        resident=("base",),
    )
    return decode(encode(plan), Plan)


def test_its_levels_are_named_and_read_beside_the_others() -> None:
    assert Level.read("base@every2") == CACHED and CACHED.name == "base@every2"
    offered = levels_of(BASE)
    assert offered[0].is_exact and CACHED in offered and CACHED not in resumed_levels(BASE)
    assert max(offered) == max(CACHED, Level(model="base", approximation=K25)), (
        "sorted by what is left out"
    )


def test_before_it_is_profiled_it_is_guessed_and_afterwards_as_measured(profile) -> None:
    assert profile.levels == (Level(model="base"), CACHED), "no latents are there to start from"
    assert profile.tau_s(CACHED, "cpu") == pytest.approx(1.5)
    assert profile.quality(ANY, CACHED) == pytest.approx(0.9 * 0.8)
    every = LevelFamily(levels=(), shares={}, quality={ANY: {"base@0": 0.9, CACHED.name: 0.72}})
    smaller = LevelFamily(levels=(), shares={}, quality={ANY: {"base@0": 1.0}})
    judged = replace(profile, measured=Measured(families={EVERY: every, SMALLER: smaller}))
    assert judged.quality(ANY, CACHED) == pytest.approx(0.8), "as among the levels there are"
    measured = Measured(quality={ANY: {CACHED.name: 0.75}}, tau={"cpu": {CACHED.name: 1.7}})
    measured_profile = replace(profile, measured=measured, hit_rates={CACHED.name: 0.0})
    assert measured_profile.quality(ANY, CACHED) == 0.75, "it looks nothing up, so it never misses"
    assert measured_profile.tau_s(CACHED, "cpu") == 1.7


def test_a_plan_takes_it_for_what_would_not_be_served_exactly(decision) -> None:
    assert decision.levels.keys() == {"base@0", CACHED.name}
    assert decision.saturation == pytest.approx(0.0, abs=1e-6)
    [row] = [row for row in decision.pasm if row.models == ("base",)]
    assert row.shares[CACHED.name] > 0.5


def test_jobs_are_routed_to_it_though_they_may_start_from_no_latents(plan, profile) -> None:
    router = Router(plan, {"base": BASE})
    placed = [router.route(QUERY) for _ in range(8)]
    assert {each.level for each in placed} == {"base@0", CACHED.name}
    assert from_noise(placed) == placed
    exact = replace(QUERY, exact=True)
    assert router.route(exact).level == "base@0"


def test_finish_times_follow_it(plan, profile) -> None:
    cached, whole = Placement.on(CACHED), Placement.on(Level(model="base"))
    overflow = Overflow(profile)
    assert [overflow.backlog.work_of(each.at, QUERY).steps for each in (cached, whole)] == [15, 30]
    request = a_request(steps=21)
    assert work_of(request, cached.approximation) == Work(steps=11)
    assert work_of(request, cached.approximation, done=11) == Work(steps=5)
    placer = Placer({"base": BASE}, OneClass(), None, overflow)
    placer.follow(plan)
    levels = {each.level for each in placer.place([QUERY] * 8, 0.0)}
    assert CACHED.name in levels


def test_levels_of_two_kinds_are_less_alike_than_either_and_the_exact_one() -> None:
    levels = ["base@0", CACHED.name, Level(model="base", approximation=skipping(25)).name]
    [[_, to_cached, to_skipped], [_, _, apart], _] = kin(levels)
    assert to_cached == pytest.approx(to_skipped) and SHARED < apart < to_cached


def placed_job(runner) -> tuple[House, Job]:
    """Make a job of 8 steps that was placed at the level."""
    house = House(runner=runner)
    job = new_job(model="m", steps=8, seed=0)
    level = Level(model="m", approximation=StepCaching(2))
    asyncio.run(house.jobs.submit([replace(job, placement=Placement.on(level))]))
    assert house.get(job.id).placement.approximation == StepCaching(2), "as it was stored"
    house.take(job.id)
    house.run()
    house.finish()
    return house, house.get(job.id)


def test_a_runner_makes_the_image_so_and_the_record_and_the_client_are_told() -> None:
    CachingRunner.calls = 0
    _, job = placed_job(CachingRunner)
    assert (job.status, CachingRunner.calls) == (JobStatus.SUCCEEDED, 4)
    urls = PublicUrls(public_url="http://api", sign=lambda key: (key, 0.0))
    shown = view_of(urls, job, sign_all(urls, job))
    assert (shown.placement.level, shown.placement.skipped_steps) == ("m@every2", 0)


def test_a_runner_that_cannot_makes_it_exactly_and_the_record_says_so() -> None:
    _, job = placed_job(NoopRunner)
    assert (job.status, job.placement.level) == (JobStatus.SUCCEEDED, "m@0")


def test_a_record_of_a_job_keeps_it() -> None:
    placement = Placement.on(CACHED)
    assert decode(encode(placement), Placement).at == CACHED
    assert placement.reached(EXACT).level == "base@0"


def test_whoever_does_not_know_it_yet_makes_the_image_exactly() -> None:
    later = replace(Placement.on(CACHED), level="base@every2and3")
    assert later.at == Level(model="base")
    assert later.reached(EXACT).level == "base@0", "and the record says so"


def a_slot(reached: Approximation, steps: int) -> Slot:
    ticket = Ticket(job=a_job(steps=8), runner=NoopRunner(BASE), due_at=0.0, deadline=None)
    sample = Sample(group=("g",), rows=1, num_steps=steps, reached=reached)
    return Slot(ticket=ticket, index=0, sample=sample)


def test_an_engine_counts_what_its_steps_cost_and_learns_nothing_from_them() -> None:
    whole, cached, resumed = (
        a_slot(reached, steps) for reached, steps in ((EXACT, 8), (StepCaching(2), 8), (K25, 4))
    )
    assert [slot.takes_whole_steps for slot in (whole, cached, resumed)] == [True, False, True]
    waits = [rank(slot, 1.0, 1.0)[0] - slot.ticket.job.waits_since for slot in (whole, cached)]
    assert waits[0] == pytest.approx(2 * waits[1])
    works = [pending_work.works([slot], (), (), {})[0].steps for slot in (whole, cached, resumed)]
    assert works == [8, 4, 4]


def test_the_steps_that_are_left_are_those_that_are_paid_for() -> None:
    assert [StepCaching(2).steps_left(7, done) for done in (0, 4, 7, 9)] == [4, 2, 0, 0]
    assert [StepCaching(3).steps_left(steps) for steps in (30, 31, 33)] == [10, 11, 11]
