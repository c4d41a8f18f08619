"""Workers change their models under load: jobs go on meanwhile, and each ends exactly once."""

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cli.stack.ports import free_port
from core.boards.fleet import Worker
from core.boards.plan import Plan
from core.codec import decode
from core.job import JobStatus
from core.model import Model
from storage.boards.fleet import PlanBoard
from storage.redis.connect import connect
from storage.redis.keys import job_key
from tests.rig import Rig, a_rig, new_job, save_model
from tests.slow import HELD

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
        "ATELIER_LEASE_S": "8",  # nobody dies here
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


def reported(rig: Rig, worker: str) -> Worker:
    with rig.client() as client:
        return decode(client.hget("fleet", f"{worker}@rig"), Worker)


def holds(rig: Rig, worker: str) -> list[str]:
    return list(reported(rig, worker).models)


def loads(rig: Rig, worker: str) -> str | None:
    now = reported(rig, worker).loading
    return now and now.model


def num_ends(rig: Rig, job_id: str) -> int:
    with rig.client() as client:
        return int(client.hget(job_key(job_id), "finishes") or 0)


def test_jobs_are_made_while_the_next_model_loads(rig):
    start(rig, "w0")
    held = rig.folder / "data" / HELD
    held.parent.mkdir(exist_ok=True)
    held.touch()
    publish(rig, 1, {"w0@rig": "heavy"})
    rig.wait_until(lambda: loads(rig, "w0") == "heavy")
    for _ in range(5):
        job = new_job(steps=3)
        rig.submit(job)
        assert rig.wait_for(job.id, JobStatus.SUCCEEDED).attempts == 1
    assert holds(rig, "w0") == ["slow"]
    held.unlink()
    rig.wait_until(lambda: holds(rig, "w0") == ["heavy"])


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
    for job in (*named, *free):
        rig.wait_for(job.id, JobStatus.SUCCEEDED)
    assert {rig.job(job.id).request.model for job in named[4:]} == {"other"}
    assert {num_ends(rig, job.id) for job in (*named, *free)} == {1}
