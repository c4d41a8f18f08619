"""A worker follows the plan: models and queues change while it runs."""

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from core.boards.plan import Plan
from core.job import JobStatus
from core.model import Model
from storage.boards.fleet import PlanBoard
from storage.redis.connect import connect
from tests.rig import a_rig, new_job, save_model

pytestmark = pytest.mark.integration

PLAN = Plan(version=1, fence=1, made_at=0.0, policy="test", assignments={}, pasm=())


@pytest.fixture(scope="module")
def rig(tmp_path_factory, ringing):
    folder = tmp_path_factory.mktemp("rig")
    with a_rig(folder, **ringing(), ATELIER_LEASE_S="8") as rig:  # nobody dies here
        for name in ("other", "large"):
            size_gib = 3.95 if name == "large" else 0.1
            model = Model(name=name, family="slow", step_s=0.01, max_steps=1000, size_gib=size_gib)
            save_model(folder / "models", model)
        (folder / "models" / "broken").mkdir()
        save_model(folder / "models", Model(name="broken", family="unheard of"))
        rig.worker("w", ATELIER_PRELOAD='["slow"]')
        rig.wait_for_worker("w")
        yield rig


versions = iter(range(1, 100))


def publish(rig, model):
    plan = replace(PLAN, version=next(versions), assignments={"w@rig": model})

    async def go():
        redis = connect(rig.redis.url)
        assert await PlanBoard(redis).publish(plan)
        await redis.aclose()

    asyncio.run(go())


def reported(rig):
    with rig.client() as client:
        return msgspec.json.decode(client.hget("fleet", "w@rig"))


def go_to(rig, model):
    publish(rig, model)
    queues = [f"gen.{model}", f"gen.{model}@w@rig"]
    # Queues are reported as they are to be; the models of those that are left go after that.
    rig.wait_until(lambda: (now := reported(rig))["queues"] == queues and now["models"] == [model])


def test_a_worker_changes_its_model_and_queue_and_finishes_what_it_has(rig):
    go_to(rig, "slow")
    old = new_job(model="slow", steps=600)
    rig.submit(old)
    rig.wait_for(old.id, JobStatus.RUNNING)
    waiting = new_job(model="other")
    rig.submit(waiting)
    publish(rig, "other")
    served = rig.wait_for(waiting.id, JobStatus.SUCCEEDED)
    done = rig.wait_for(old.id, JobStatus.SUCCEEDED)
    assert served.started_at < done.finished_at  # both were held meanwhile
    assert done.attempts == 1


def test_a_worker_whose_families_need_no_torch_never_imports_it(rig):
    go_to(rig, "slow")
    job = new_job(model="slow")
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.SUCCEEDED)
    mapped = Path(f"/proc/{rig.processes['w'].pid}/maps").read_text()
    assert "msgspec" in mapped
    assert "libtorch" not in mapped


def test_a_queue_that_is_left_keeps_its_jobs_for_others(rig):
    go_to(rig, "slow")
    go_to(rig, "other")
    left = new_job(model="slow")
    rig.submit(left)
    served = new_job(model="other")
    rig.submit(served)
    rig.wait_for(served.id, JobStatus.SUCCEEDED)
    assert rig.job(left.id).status is JobStatus.QUEUED
    go_to(rig, "slow")
    rig.wait_for(left.id, JobStatus.SUCCEEDED)


def test_a_change_where_both_do_not_fit_loses_no_job(rig):
    go_to(rig, "slow")
    jobs = [new_job(model="slow", steps=30) for _ in range(12)]
    rig.submit(*jobs)
    publish(rig, "large")
    large = new_job(model="large")
    rig.submit(large)
    rig.wait_for(large.id, JobStatus.SUCCEEDED)
    assert {rig.job(job.id).status for job in jobs} <= {JobStatus.SUCCEEDED, JobStatus.QUEUED}
    go_to(rig, "slow")
    for job in jobs:
        assert rig.wait_for(job.id, JobStatus.SUCCEEDED).attempts == 1


def test_queues_are_the_plans_again_after_the_broker_was_away(rig):
    go_to(rig, "other")
    rig.redis.kill()
    rig.redis.start()
    job = new_job(model="other")
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.SUCCEEDED)
    stray = new_job(model="slow")
    rig.submit(stray)
    again = new_job(model="other")
    rig.submit(again)
    rig.wait_for(again.id, JobStatus.SUCCEEDED)
    assert rig.job(stray.id).status is JobStatus.QUEUED


def test_a_model_that_cannot_be_loaded_leaves_the_worker_as_it_was(rig):
    go_to(rig, "slow")
    publish(rig, "broken")
    job = new_job(model="slow", steps=100)
    rig.submit(job)
    rig.wait_for(job.id, JobStatus.SUCCEEDED)
    rig.wait_until(lambda: "model_not_loaded" in (rig.folder / "w.log").read_text())
    assert reported(rig)["queues"] == ["gen.slow", "gen.slow@w@rig"]
