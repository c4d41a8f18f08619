from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.application import Application
from core.boards.demand import Stream
from core.boards.fleet import Worker
from core.levels.level import Level
from scheduler.allocation.allocate import allocate
from scheduler.allocation.level_limits import limit
from scheduler.allocation.problem import Instance
from scheduler.allocation.registry import POLICIES, find_policy
from scheduler.planning.decide import decide
from scheduler.planning.pose import pose
from scheduler.planning.snapshot import Snapshot
from scheduler.profile.profile_file import Measured
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker
from tests.unit.scheduler.instances import fractions, instances, seconds
from tests.unit.scheduler.laws import row_of

ALL = ("base", "small", "tiny")
AVATARS = Application(name="avatars", tenant="t", models=ALL)
PROFILE = replace(
    a_profile(*(a_model(name, quality=q) for name, q in zip(ALL, (1.0, 0.9, 0.5), strict=True))),
    measured=Measured(
        tau={
            "cpu": {"base@0": 8.0, "small@0": 4.0, "tiny@0": 2.0},
            "gpu": {"base@0": 1.0, "small@0": 0.5, "tiny@0": 0.25},
        },
        quality={
            "any": {"base@0": 1.0, "small@0": 0.9, "tiny@0": 0.5},
            "easy": {"base@0": 1.0, "small@0": 1.0, "tiny@0": 0.9},
            "hard": {"base@0": 0.8, "small@0": 0.6, "tiny@0": 0.2},
        },
    ),
)


def snapshot(
    application: Application, *workers: Worker, rate: float = 1.0, key: str | None = None
) -> Snapshot:
    name = application.key if key is None else key
    return Snapshot(
        workers=workers,
        rates={Stream(application=name, models=application.models): rate},
        affinity={name: {"easy": 0.5, "hard": 0.5}},
        applications={application.key: application},
        classes=("easy", "hard"),
    )


def levels(application: Application, *workers: Worker) -> dict[str, set[str]]:
    """Name the levels left to each class."""
    demands = pose(snapshot(application, *workers), PROFILE).demands
    return {d.affinity: {Level.read(level).model for level in d.levels or ()} for d in demands}


GPU, CPU = a_worker("g", device_type="gpu"), a_worker("c", device_type="cpu")


def test_levels_under_the_floor_of_a_class_are_not_used_for_it() -> None:
    picky = replace(AVATARS, quality_floor=0.7)
    assert levels(picky, GPU) == {"easy": set(ALL), "hard": {"base"}}


def test_if_no_level_reaches_the_floor_the_best_is_used() -> None:
    picky = replace(AVATARS, quality_floor=0.95)
    assert levels(picky, GPU) == {"easy": {"base", "small"}, "hard": {"base"}}


def test_levels_that_take_longer_than_the_slo_are_not_used() -> None:
    assert levels(replace(AVATARS, slo_s=0.6), GPU)["hard"] == {"small", "tiny"}
    assert levels(replace(AVATARS, slo_s=5.0), CPU)["hard"] == {"small", "tiny"}


def test_if_no_level_is_in_time_the_fastest_is_used() -> None:
    assert levels(replace(AVATARS, slo_s=0.1), GPU)["hard"] == {"tiny"}


def test_quality_goes_before_time() -> None:
    torn = replace(AVATARS, slo_s=0.6, quality_floor=0.7)
    assert levels(torn, GPU) == {"easy": {"small", "tiny"}, "hard": {"base"}}


def test_a_level_in_time_on_one_device_type_alone_is_used_there_alone() -> None:
    hasty = replace(AVATARS, models=("base",), slo_s=2.0)
    decision = decide(snapshot(hasty, GPU, CPU, rate=2.0), PROFILE, allocate)
    assert decision.saturation == pytest.approx(1 - 0.9 / 2.0)
    patient = decide(snapshot(replace(hasty, slo_s=9.0), GPU, CPU, rate=2.0), PROFILE, allocate)
    assert patient.saturation == pytest.approx(1 - (0.9 / 1.0 + 0.9 / 8.0) / 2.0)


def test_its_rows_keep_the_floor_whether_its_prompts_were_expected_or_not() -> None:
    picky = replace(AVATARS, models=("base", "tiny"), quality_floor=0.7)
    workers = (GPU, replace(GPU, name="g2"))
    for rate in (0.0, 100.0):
        rows = decide(snapshot(picky, *workers, rate=rate), PROFILE, allocate).pasm
        assert row_of(rows, "t/avatars", "hard", ()).shares == {"base@0": 1.0}
    assert row_of(rows, "t/avatars", "hard", picky.models).shares == {"base@0": 1.0}
    assert set(row_of(rows, "default", "hard", ()).shares) != {"base@0"}


def test_a_level_under_the_floor_is_better_than_none() -> None:
    picky = replace(AVATARS, models=("tiny",), quality_floor=0.99)
    rows = decide(snapshot(picky, GPU), PROFILE, allocate).pasm
    assert row_of(rows, "t/avatars", "hard", ()).shares == {"tiny@0": 1.0}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_keeps_the_floor(policy: str) -> None:
    picky = replace(AVATARS, models=("base", "tiny"), quality_floor=0.7)
    workers = (GPU, replace(GPU, name="g2"), replace(GPU, name="g3"))
    decision = decide(snapshot(picky, *workers, rate=3.0), PROFILE, find_policy(policy))
    hard = [
        row for row in decision.pasm if (row.application, row.affinity) == ("t/avatars", "hard")
    ]
    assert hard and all(set(row.shares) == {"base@0"} for row in hard)


@settings(max_examples=40, deadline=None)
@given(instances(), fractions, st.none() | seconds)
def test_a_demand_keeps_a_level_and_no_level_is_worse_than_one_left_out(
    instance: Instance, floor: float, slo_s: float | None
) -> None:
    application = replace(AVATARS, quality_floor=floor, slo_s=slo_s)
    for demand in instance.demands:
        kept = limit(demand, application, instance)
        before, after = instance.levels_of(demand), instance.levels_of(kept)
        assert bool(before) == bool(after) and set(after) <= set(before)
        gains = [instance.quality[demand.affinity, level.name] for level in after]
        assert demand.is_exact or min(gains) >= floor or len(after) == 1


def test_an_idle_worker_that_is_too_slow_for_a_model_does_not_hold_it() -> None:
    quick = replace(AVATARS, slo_s=3.0)
    spare = replace(CPU, models=("base",))
    instance = pose(snapshot(quick, GPU, spare, rate=0.1), PROFILE)
    counts = allocate(instance).counts
    assert counts["gpu", "base"] == 1
    assert counts["cpu", "tiny"] == 1
