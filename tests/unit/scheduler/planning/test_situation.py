from dataclasses import replace

import pytest

from core.boards.demand import AskedJob
from scheduler.planning.situation import situation
from scheduler.planning.snapshot import Snapshot
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker

PROFILE = a_profile(a_model("base"))
A_JOB = AskedJob(images=1, promised_s=10.0)


@pytest.mark.parametrize(
    ("seconds", "jobs", "is_telling"), [(3, 11, False), (3, 12, True), (9, 1, False), (10, 1, True)]
)
def test_what_came_says_what_will_if_it_was_much_or_came_for_long(
    seconds: int, jobs: int, is_telling: bool
) -> None:
    snapshot = Snapshot(
        workers=(a_worker("w0", "base"),),
        history=(1.0,) * seconds,
        jobs={"default": (A_JOB,) * (jobs - 1), "avatars": (A_JOB,)},
    )
    assert situation(snapshot, PROFILE).is_telling is is_telling


def test_a_model_that_a_worker_cannot_load_is_not_on_its_way() -> None:
    waits = a_worker("w0", "tiny")
    for unable in (replace(waits, refused=("base",)), replace(waits, catalogue=("tiny",))):
        snapshot = Snapshot(workers=(unable,), previous={"w0": "base"})
        (seat,) = situation(snapshot, PROFILE).seats
        assert (seat.serves, seat.given, seat.ready_s) == ("tiny", None, 0.0)
