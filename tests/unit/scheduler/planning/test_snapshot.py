from dataclasses import replace

import pytest

from core.boards.fleet import QueueDepth
from scheduler.allocation.allocate import allocate
from scheduler.planning.decide import decide
from scheduler.planning.snapshot import Snapshot, of_models
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker

KEPT = a_model("kept")
SNAPSHOT = Snapshot(
    workers=[a_worker("w1", "gone"), a_worker("w2", "kept", "gone"), a_worker("w3", "kept")],
    depths=[
        QueueDepth(queue="gen.gone", waiting=3, oldest_s=9.0),
        QueueDepth(queue="gen.kept", waiting=1, oldest_s=1.0),
    ],
    previous={"w1": "gone", "w2": "kept"},
    settling={"w1": "gone"},
    wanted={"gone": 3.0},
    left={"gone": 3.0},
)


def test_a_plan_is_made_as_if_a_removed_model_had_never_been() -> None:
    known = of_models(SNAPSHOT, {"kept"})
    assert [worker.models for worker in known.workers] == [(), ("kept",), ("kept",)]
    assert [depth.queue for depth in known.depths] == ["gen.kept"]
    assert (known.previous, known.settling) == ({"w2": "kept"}, {})
    assert (known.wanted, known.left) == ({}, {})


def test_where_nothing_was_removed_the_snapshot_is_as_it_was() -> None:
    assert of_models(SNAPSHOT, {"kept", "gone"}) is SNAPSHOT


def test_every_worker_of_a_removed_model_gets_another() -> None:
    decision = decide(of_models(SNAPSHOT, {"kept"}), a_profile(KEPT), allocate)
    assert set(decision.assignments.values()) == {"kept"}
    assert decision.resident == ("kept",)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_nobody_is_left_with_a_model_that_is_served_no_more(device: str) -> None:
    assert a_profile(replace(KEPT, load_s=5.0)).load_s("gone", device) == 0.0
