from core.family import SAMPLERS
from core.job import JobStatus
from core.levels.approximation import skipping
from core.levels.level import Level
from core.placement import queue_of


def test_a_job_is_terminal_unless_it_waits_or_runs() -> None:
    assert {s for s in JobStatus if not s.is_terminal} == {JobStatus.QUEUED, JobStatus.RUNNING}


def test_a_level_is_named_after_its_model_and_skipped_steps() -> None:
    assert Level(model="shapes-xl", approximation=skipping(10)).name == "shapes-xl@10"
    assert queue_of("shapes-xl") == "gen.shapes-xl"


def test_ten_samplers_are_served() -> None:
    assert len(SAMPLERS) == 10
