"""Finished images are scored by a CPU worker, which nobody waits for."""

import asyncio
from dataclasses import replace
from itertools import islice

import pytest

from core.job import JobStatus, StoredImage
from core.request.output import LOSSLESS
from core.settings import Settings
from storage.boards.classifiers import ClassifierBoard
from storage.boards.scores import FIRST, ScoreStream
from storage.jobs.leases import LeaseStore, Outcome
from storage.objects.store import open_objects
from storage.redis.connect import connect
from tasks.messages import SCORE
from tests.rig import ROOT, SLOW, a_rig, new_job
from worker.cpu.store_images import encode_image
from zoo.prompts import Split, prompts_of
from zoo.scenes import draw

pytestmark = pytest.mark.integration

SCORER = str(ROOT / "zoo" / "scorers" / "shapes")


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rig")
    with a_rig(folder, ATELIER_SCORE_SHARE="1", ATELIER_SCORER_DIR=SCORER) as rig:
        rig.cpu_worker()
        board(rig, lambda classifiers: classifiers.want("nothing"))
        rig.upkeep()
        log = folder / "cpu.log"
        rig.wait_until(lambda: b" ready." in log.read_bytes())
        rig.wait_until(lambda: b"not_retrained" in log.read_bytes())  # scores are looked for before
        yield rig


def finish(rig, prompt, picture):
    """Make a job as a worker does, with an image that somebody else has drawn."""
    job = new_job(steps=SLOW.default_steps)
    asked = replace(job.request, prompt=prompt, guidance=SLOW.default_guidance)
    rig.submit(replace(job, request=asked))
    env = {name.removeprefix("ATELIER_").lower(): value for name, value in rig.env.items()}
    objects = open_objects(Settings(data_dir=env["data_dir"], url_secret=env["url_secret"]))
    with rig.client() as client:
        leases = LeaseStore(client, worker="w@rig", lease_s=60.0)
        fence = leases.claim(job.id).fence
        key = f"t/{job.id}/{fence}/0.png"
        objects.put(key, encode_image(picture, LOSSLESS), "image/png")
        image = StoredImage(key=key, width=64, height=64, seed=1, sha256="")
        assert leases.finish(job.id, fence, Outcome(status=JobStatus.SUCCEEDED, images=(image,)))
    return job.id


def scores(rig):
    page = ask(rig, lambda redis: ScoreStream(redis).after(FIRST, 10))
    return {score.job: score for score in page.scores}


def board(rig, wish):
    return ask(rig, lambda redis: wish(ClassifierBoard(redis)))


def ask(rig, question):
    async def go():
        redis = connect(rig.redis.url)
        try:
            return await question(redis)
        finally:
            await redis.aclose()

    return asyncio.run(go())


def test_a_finished_image_is_scored_for_its_prompt_at_its_level(rig):
    right, wrong = (prompt.address.scene() for prompt in islice(prompts_of(Split.TEST, 2), 2))
    picture = draw(right)
    jobs, log = [], rig.folder / "cpu.log"
    for scene in (right, wrong):  # what comes before the task of another has ended is let go
        jobs.append(finish(rig, scene.caption, picture))
        rig.wait_until(lambda: jobs[-1] in scores(rig))
        rig.wait_until(lambda: log.read_text().count(f"Task {SCORE}[") >= len(jobs))
    told, mistaken = (scores(rig)[job] for job in jobs)
    assert (told.prompt, told.level) == (right.caption, "slow@0")
    assert told.quality > mistaken.quality + 0.1


def test_a_wish_for_another_classifier_is_heard_by_a_cpu_worker_and_settled(rig):
    """There is none to begin with here, so nothing comes of it, and it is not tried for ever."""
    rig.wait_until(lambda: board(rig, lambda classifiers: classifiers.wanted()) is None)
    assert "not_retrained" in (rig.folder / "cpu.log").read_text()
