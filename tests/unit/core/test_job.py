from dataclasses import replace

import pytest

from core.family import SAMPLERS
from core.job import JobStatus
from core.levels.approximation import skipping
from core.levels.level import Level
from core.placement import queue_of
from core.request.init_image import InitImage
from core.request.second_pass import SecondPass
from tests.jobs import a_request


def test_a_job_is_terminal_unless_it_waits_or_runs() -> None:
    assert {s for s in JobStatus if not s.is_terminal} == {JobStatus.QUEUED, JobStatus.RUNNING}


def test_a_level_is_named_after_its_model_and_skipped_steps() -> None:
    assert Level(model="shapes-xl", approximation=skipping(10)).name == "shapes-xl@10"
    assert queue_of("shapes-xl") == "gen.shapes-xl"


def test_the_work_of_a_job_is_what_is_run_of_it_and_the_second_pass() -> None:
    plain = a_request(width=500, height=2000, steps=20, n=2)
    assert plain.work == pytest.approx(40)
    half = replace(plain, init_image=InitImage(image="k", strength=0.5))
    assert half.work == pytest.approx(20)
    twice = replace(plain, second_pass=SecondPass(scale=2.0, strength=0.25, steps=40))
    assert twice.work == pytest.approx(40 * (1 + 2))


def test_eleven_samplers_are_served() -> None:
    assert len(SAMPLERS) == 11
