import pytest

from core.demand import Stream
from core.fleet import QueueDepth
from scheduler.allocate import allocate
from scheduler.decide import Decision, Snapshot, decide, pose
from tests.unit.scheduler.twins import a_model, a_profile, a_worker

BASE, TINY = a_model("base", step_s=0.1), a_model("tiny", quality=0.6, step_s=0.02)
PROFILE = a_profile(BASE, TINY)
BOTH = ("base", "tiny")


def stream(*models: str) -> Stream:
    return Stream(application="default", models=models)


def decide_(snapshot: Snapshot) -> Decision:
    return decide(snapshot, PROFILE, allocate)


def test_without_workers_the_plan_is_empty() -> None:
    decision = decide_(Snapshot(workers=(), rates={stream("base"): 1.0}))
    assert (decision.assignments, decision.pasm, decision.saturation) == ({}, (), 1.0)


def test_two_workers_and_two_models_serve_both() -> None:
    decision = decide_(Snapshot(workers=(a_worker("w0"), a_worker("w1"))))
    assert sorted(decision.assignments.values()) == ["base", "tiny"]
    assert decision.saturation == 0.0


def test_a_model_that_waits_on_its_queue_keeps_its_worker() -> None:
    depths = (QueueDepth(queue="gen.tiny", waiting=1, oldest_s=0.1),)
    snapshot = Snapshot(
        workers=(a_worker("w0", "base"), a_worker("w1", "tiny")),
        depths=depths,
        rates={stream("base"): 9.0},
    )
    assert decide_(snapshot).assignments == {"w0": "base", "w1": "tiny"}


@pytest.mark.parametrize(("oldest_s", "model"), [(29.0, "base"), (31.0, "tiny")])
def test_one_worker_turns_to_a_lone_job_that_has_waited_too_long(
    oldest_s: float, model: str
) -> None:
    snapshot = Snapshot(
        workers=(a_worker("w0", "base"),),
        depths=(QueueDepth(queue="gen.tiny", waiting=1, oldest_s=oldest_s),),
        rates={stream("base"): 9.0},
        previous={"w0": "base"},
    )
    assert decide_(snapshot).assignments == {"w0": model}


def test_jobs_that_wait_are_demand_but_no_arrivals_and_get_no_row() -> None:
    depths = (QueueDepth(queue="gen.tiny", waiting=60, oldest_s=9.0),)
    decision = decide_(Snapshot(workers=(a_worker("w0", "tiny"),), depths=depths))
    assert decision.demand == {"default": 0.0}
    assert decision.levels == pytest.approx({"tiny@0": 1.0})
    assert [row.models for row in decision.pasm] == [()]


def test_a_worker_is_never_given_a_model_that_does_not_fit() -> None:
    small = a_worker("w0", memory_gib=0.01)
    assert decide_(Snapshot(workers=(small,))).assignments == {}


def test_the_smallest_worker_of_a_type_says_what_fits() -> None:
    workers = (a_worker("w0"), a_worker("w1", memory_gib=0.01), a_worker("g0", device_type="gpu"))
    assert {t for t, _ in pose(Snapshot(workers=workers), PROFILE).load} == {"gpu"}


def test_overload_shows_as_saturation() -> None:
    snapshot = Snapshot(workers=(a_worker("w0", "base"),), rates={stream("base"): 3.0})
    assert decide_(snapshot).saturation == pytest.approx(0.9)


def test_classes_share_the_demand_by_their_histogram() -> None:
    snapshot = Snapshot(
        workers=(a_worker("w0", "base"),),
        rates={stream(*BOTH): 0.1},
        affinity={"default": {"easy": 0.25, "hard": 0.75}},
        classes=("easy", "hard"),
    )
    decision = decide_(snapshot)
    assert decision.affinity == pytest.approx({"easy": 0.25, "hard": 0.75})
    assert [(row.affinity, row.models) for row in decision.pasm] == [
        ("easy", BOTH),
        ("hard", BOTH),
        ("easy", ()),
        ("hard", ()),
    ]


def test_the_quality_expected_is_that_of_the_levels_used() -> None:
    served = decide_(Snapshot(workers=(a_worker("w0", "tiny"),), rates={stream("tiny"): 0.1}))
    assert served.quality == pytest.approx(0.6)
    assert decide_(Snapshot(workers=())).quality is None
