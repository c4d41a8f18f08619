"""A job whose worker is killed or preempted goes on with another: real processes, real kills."""

import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from core.job import JobStatus
from storage.jobs.integrity import check_integrity
from storage.objects.image_states import PREFIX
from tests.models import OF_DIFFUSERS, save_sdxl
from tests.rig import COUNTING, FATAL, a_rig, new_job, save_model

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

STEPS = 80
#: Of real models: a beat (0.4 s) tells how far a job is, and must find it between half and done.
UNHURRIED = {"TEST_STEP_S": "0.05"}
LONG = 250  #: steps that last until a second state is stored, on a busy machine too; bright at most


def rig_of(tmp_path, *models, preload="tiny", **env):
    return a_rig(tmp_path, models=models, ATELIER_PRELOAD=f'["{preload}"]', **env)


def save_tiny(rig):
    save_model(rig.folder / "models", save_sdxl(rig.folder / "models" / "tiny"))


def pictures(rig, job):
    folder = rig.folder / "data" / "objects"
    return [np.asarray(Image.open(folder / image.key), int) for image in job.images]


def wait_for_step(rig, job_id, step):
    rig.wait_until(lambda: rig.job(job_id).progress.step >= step)


def resumed(rig, worker):
    """The steps that images of a job went on from, as the log of a worker has it."""
    log = (rig.folder / f"{worker}.log").read_text()
    told = "".join(re.findall(r"job_resumed.*", log))
    return [int(step) for step in re.findall(r"\b\d: (\d+)", told)]


def states_left(rig):
    root = rig.folder / "data" / "objects" / PREFIX
    folders = os.walk(root)  # which minds no folder that goes meanwhile
    return [Path(at, name) for at, _, names in folders for name in names if name.endswith(".state")]


def make(rig, **changes):
    """Make a job that nobody disturbs."""
    job = new_job(model="tiny", **{"steps": STEPS, "seed": 5} | changes)
    rig.submit(job)
    return rig.wait_for(job.id, JobStatus.SUCCEEDED)


def begin(rig, **changes):
    """Have a job made up to the middle."""
    job = new_job(**{"model": "tiny", "steps": STEPS, "seed": 5} | changes)
    rig.submit(job)
    wait_for_step(rig, job.id, STEPS // 2)
    return job


def test_a_killed_job_goes_on_with_another_worker(tmp_path):
    slow, lease = replace(COUNTING, step_s=0.04), {"ATELIER_LEASE_S": "5"}
    with rig_of(tmp_path, slow, preload="counting", **lease) as rig:
        rig.upkeep()
        first = rig.worker("first")
        rig.wait_for_worker("first")
        job = begin(rig, model="counting", steps=LONG)
        rig.wait_until(lambda: states_left(rig))
        [kept] = states_left(rig)
        early = kept.read_bytes()
        rig.wait_until(lambda: kept.read_bytes() != early)  # each is followed by a later one
        first.kill()
        rig.worker("second")
        done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert (pictures(rig, done)[0] == LONG).all()
        [step] = resumed(rig, "second")
        assert 0 < step < LONG
        assert done.attempts == 1  # it had come further: the loss is not charged to it
        rig.wait_until(lambda: not states_left(rig))
        with rig.client() as client:
            assert check_integrity(client, is_quiet=True) == []


@pytest.mark.long
def test_a_killed_job_becomes_the_image_that_it_would_have_been(tmp_path):
    with rig_of(tmp_path, **UNHURRIED) as rig:
        save_tiny(rig)
        rig.upkeep()
        first = rig.worker("first")
        rig.wait_for_worker("first")
        expected = make(rig)
        job = begin(rig)
        first.kill()
        rig.worker("second")
        done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert resumed(rig, "second")
        assert [i.sha256 for i in done.images] == [i.sha256 for i in expected.images]
        assert done.attempts == 1


@pytest.mark.long
def test_a_worker_that_is_preempted_hands_its_jobs_over_where_they_stand(tmp_path):
    with rig_of(tmp_path, **UNHURRIED) as rig:
        save_tiny(rig)
        rig.upkeep()
        first = rig.worker("first", ATELIER_SHUTDOWN_S="0")
        rig.wait_for_worker("first")
        expected = make(rig, n=2)
        job = begin(rig, n=2)
        first.send_signal(signal.SIGTERM)
        back = rig.wait_for(job.id, JobStatus.QUEUED)
        rig.worker("second")
        done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert done.attempts == 1
        steps = resumed(rig, "second")
        assert len(steps) == 2
        assert sum(steps) >= 2 * back.progress.step  # their mean: nothing at all is lost
        for image, other in zip(pictures(rig, done), pictures(rig, expected), strict=True):
            assert abs(image - other).max() <= 1  # of 255: who shares a step rounds otherwise
        rig.wait_until(lambda: not states_left(rig))


@pytest.mark.long
def test_a_job_that_kills_at_one_step_is_buried_though_it_goes_on_from_there(tmp_path):
    with rig_of(tmp_path, FATAL, preload="fatal") as rig:
        rig.upkeep()
        job = new_job(model="fatal", steps=100)
        rig.submit(job)
        lost = 0
        while not rig.job(job.id).status.is_terminal:
            assert rig.worker("w").wait(120.0) == -signal.SIGKILL
            lost += 1
            rig.wait_until(lambda: rig.job(job.id).status is not JobStatus.RUNNING)
        failure = rig.job(job.id).failure
        assert failure is not None and failure.type == "attempts_exhausted"
        assert lost <= 5  # three that stood still, and those in which it came further
        with rig.client() as client:
            assert check_integrity(client, is_quiet=True) == []
