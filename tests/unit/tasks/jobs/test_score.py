from dataclasses import replace

import numpy as np
import pytest

from classifier.score_curve import Estimate
from core.boards.score import Score
from core.job import Job, JobRequest, JobStatus, Quality, StoredImage, Task
from core.model import Model
from core.placement import Placement, queue_of
from core.request.output import LOSSLESS
from core.settings import Settings
from storage.boards.scores import FIRST
from storage.fakes import MemoryJobs, MemoryObjects, MemoryScores, MemoryStore
from tasks.jobs.score import _score, is_comparable, judge, look
from worker.cpu.store_images import encode_image

BASE = Model(name="base", family="noop", default_steps=8, default_guidance=4.0)


def a_job(name="j1", **asked):
    request = JobRequest(
        **{
            "prompt": "a red circle",
            "model": "base",
            "width": 64,
            "height": 64,
            "steps": 8,
            "guidance": 4.0,
            "seed": 1,
            **asked,
        }
    )
    placement = Placement(queue=queue_of("base"), model="base", level="base@10", skipped_steps=10)
    image = StoredImage(key=f"t/{name}/1/0.png", width=64, height=64, seed=1, sha256="")
    return Job(
        id=name,
        tenant="t",
        request=request,
        placement=placement,
        status=JobStatus.SUCCEEDED,
        created_at=1.0,
        images=(image,),
    )


def redness(prompts, levels, images):
    """Rate an image by its red: a scorer without weights."""
    return [Estimate(quality=image.getpixel((0, 0))[0] / 255, variance=0.1) for image in images]


def a_picture(red):
    return encode_image(np.full((8, 8, 3), red, np.uint8), LOSSLESS)


def test_a_job_with_the_defaults_of_its_model_compares_with_others():
    assert is_comparable(a_job(), BASE)
    assert is_comparable(a_job(quality=Quality.EXACT, n=2), BASE)


@pytest.mark.parametrize(
    "asked",
    [
        {"steps": 4},
        {"guidance": 1.0},
        {"width": 128},
        {"negative_prompt": "blue"},
        {"scheduler": "ddim"},
        {"task": Task.EDIT},
    ],
)
def test_a_job_that_asked_for_something_else_does_not(asked):
    assert not is_comparable(a_job(**asked), BASE)


@pytest.mark.parametrize("changes", [{"status": JobStatus.FAILED}, {"images": ()}])
def test_a_job_without_images_does_not(changes):
    assert not is_comparable(replace(a_job(), **changes), BASE)


async def test_every_image_that_is_still_there_is_scored_at_the_level_it_got():
    objects, scores = MemoryObjects(), MemoryScores()
    objects.put("t/a/1/0.png", a_picture(204), "image/png")
    assert await judge([a_job("a"), a_job("gone")], objects, scores, redness) == 1
    assert (await scores.after(FIRST, 10)).scores == (
        Score(job="a", prompt="a red circle", level="base@10", quality=0.8, variance=0.1),
    )


async def test_no_image_is_no_work():
    assert await judge([a_job("gone")], MemoryObjects(), MemoryScores(), None) == 0


async def test_jobs_that_were_forgotten_are_left_out():
    jobs = MemoryJobs(MemoryStore(), max_queue=10)
    assert await look(["forgotten"], jobs, {"base": BASE}) == []


async def test_a_model_that_cannot_be_read_does_not_end_scoring(tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "atelier.json").write_text("{")
    assert await _score([], Settings(models_dir=tmp_path)) == 0
