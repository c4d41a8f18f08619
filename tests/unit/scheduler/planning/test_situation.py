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
