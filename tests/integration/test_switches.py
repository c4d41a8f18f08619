"""Workers change their models under load: jobs go on meanwhile, and each ends exactly once."""

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from cli.stack.ports import free_port
from core.boards.plan import Plan
from core.job import JobStatus
from core.model import Model
from storage.boards.fleet import PlanBoard
from storage.redis.connect import connect
from storage.redis.keys import job_key
from tests.rig import Rig, a_rig, new_job, save_model

pytestmark = pytest.mark.integration

LOAD_S = 0.8
MODELS = ("slow", "other", "heavy")
PLAN = Plan(version=1, fence=1, made_at=0.0, policy="test", assignments={}, pasm=())


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    port = free_port()
    env = {
        "ATELIER_SCHEDULER_PORT": str(port),
        "ATELIER_SCHEDULER_URL": f"http://127.0.0.1:{port}",
        "ATELIER_PRELOAD": '["slow"]',
        "ATELIER_LATENTS_GIB": "0",
    }
    with a_rig(tmp_path / "rig", **env) as rig:
        for name in ("slow", "other"):
            save(rig, Model(name=name, family="slow", step_s=0.01, load_s=0.05))
        save(rig, Model(name="heavy", family="heavy", step_s=0.01, load_s=LOAD_S))
        yield rig


def save(rig: Rig, model: Model) -> None:
    save_model(rig.folder / "models", model)


def start(rig: Rig, *workers: str) -> None:
    for name in workers:
        rig.worker(name)
    for name in workers:
        rig.wait_for_worker(name)


def publish(rig: Rig, version: int, assignments: dict[str, str]) -> None:
    async def go() -> None:
        redis = connect(rig.redis.url)
        plan = replace(PLAN, version=version, assignments=assignments)
        assert await PlanBoard(redis).publish(plan)
        await redis.aclose()

    asyncio.run(go())


def holds(rig: Rig, worker: str) -> list[str]:
    with rig.client() as client:
        return msgspec.json.decode(client.hget("fleet", f"{worker}@rig"))["models"]


def num_ends(rig: Rig, job_id: str) -> int:
    with rig.client() as client:
        return int(client.hget(job_key(job_id), "finishes") or 0)


def test_jobs_are_made_while_the_next_model_loads(rig):
    start(rig, "w0")
    publish(rig, 1, {"w0@rig": "heavy"})
    began, jobs = time.time(), []
    while holds(rig, "w0") == ["slow"]:
        jobs.append(new_job(steps=3))
        rig.submit(jobs[-1])
        time.sleep(0.05)
    loaded = time.time()
    rig.wait_until(lambda: holds(rig, "w0") == ["heavy"])
    ended = [rig.job(job.id).finished_at for job in jobs]
    assert loaded - began >= LOAD_S
    assert sum(at is not None and began + 0.2 < at < loaded for at in ended) >= 5
    publish(rig, 2, {"w0@rig": "slow"})  # those that came too late wait for their model
    for job in jobs:
        assert rig.wait_for(job.id, JobStatus.SUCCEEDED).attempts == 1


def test_however_often_plans_change_every_job_ends_exactly_once(rig):
    rig.upkeep()
    start(rig, "w0", "w1")
    draw, jobs, version = random.Random(5), [], 0
    for version in range(1, 8):
        publish(rig, version, {f"w{i}@rig": draw.choice(MODELS) for i in range(2)})
        for _ in range(5):
            jobs.append(new_job(model=draw.choice(MODELS), steps=draw.randint(1, 25)))
            rig.submit(jobs[-1])
            time.sleep(0.03)
    for turn, model in enumerate(MODELS):
        publish(rig, version + 1 + turn, {"w0@rig": model, "w1@rig": "slow"})
        for job in jobs:
            if job.request.model == model:
                assert rig.wait_for(job.id, JobStatus.SUCCEEDED).attempts == 1
    assert {num_ends(rig, job.id) for job in jobs} == {1}


def test_one_worker_takes_turns_among_models_and_jobs_that_may_move_do(rig):
    rig.upkeep()
    rig.start("scheduler", "run.scheduler")
    start(rig, "w0")
    named = [new_job(model=model, filled=()) for model in ("slow", "other") for _ in range(4)]
    free = [new_job(model="other") for _ in range(4)]
    rig.submit(*named, *free)
    began = time.monotonic()
    for job in (*named, *free):
        rig.wait_for(job.id, JobStatus.SUCCEEDED)
    assert time.monotonic() - began < 20.0
    assert {rig.job(job.id).request.model for job in named[4:]} == {"other"}
    assert {num_ends(rig, job.id) for job in (*named, *free)} == {1}
