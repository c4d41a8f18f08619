"""Loads and steps that take longer than every lease, by real workers."""

import shutil

import pytest

from cli.stack.ports import free_port
from core.boards.fleet import Stage, Worker
from core.boards.plan import Plan
from core.codec import decode
from core.job import JobStatus
from core.model import Model
from storage.boards.measured import read_measured
from tests.plan import read_plan
from tests.rig import SLOW, Rig, a_rig, new_job, save_model
from tests.slow import HELD

pytestmark = pytest.mark.integration

#: Each outlasts a machine that stalls; what takes two of them stands for a minute and more.
LEASE = {"ATELIER_LEASE_S": "3", "ATELIER_BEAT_S": "0.3"}
LONG_S = 6.5
HEAVY = Model(name="heavy", family="heavy", load_s=LONG_S, step_s=0.01, max_steps=1000)
ENDLESS = Model(name="endless", family="slow", step_s=LONG_S, max_steps=1000)
BROKEN = Model(name="broken", family="no such family")


def reported(rig: Rig, name: str) -> Worker | None:
    with rig.client() as client:
        document = client.hget("fleet", f"{name}@rig")
    return None if document is None else decode(document, Worker)


def loading(rig: Rig, name: str) -> tuple[str, Stage] | None:
    now = reported(rig, name)
    return None if now is None or now.loading is None else (now.loading.model, now.loading.stage)


def plan(rig: Rig) -> Plan | None:
    with rig.client() as client:
        return read_plan(client)


def test_a_step_longer_than_any_lease_is_no_hang_and_loses_no_job(tmp_path):
    with a_rig(tmp_path, models=(ENDLESS,), **LEASE) as rig:
        rig.upkeep()
        worker = rig.worker("w")
        rig.wait_for_worker("w")
        job = new_job(model="endless", steps=1)
        rig.submit(job)
        done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert done.attempts == 1 and worker.poll() is None


@pytest.mark.long
def test_a_worker_reports_at_once_and_then_loads_and_jobs_wait_for_that(tmp_path):
    def is_planned() -> bool:
        planned = plan(rig)
        return planned is not None and planned.assignments == {"w@rig": "heavy"}

    with a_rig(tmp_path, models=(HEAVY, BROKEN), **LEASE) as rig:
        held = tmp_path / "data" / HELD
        held.parent.mkdir(exist_ok=True)
        held.touch()
        rig.upkeep()
        rig.start("scheduler", "run.scheduler", ATELIER_SCHEDULER_PORT=str(free_port()))
        rig.wait_until(lambda: plan(rig) is not None)
        job = new_job(model="heavy")
        rig.submit(job)
        rig.worker("w")
        rig.wait_until(lambda: reported(rig, "w") is not None)
        first = reported(rig, "w")
        assert first is not None and first.models == ()
        rig.wait_until(lambda: loading(rig, "w") == ("heavy", Stage.READING))
        rig.wait_until(is_planned)
        held.unlink()
        done = rig.wait_for(job.id, JobStatus.SUCCEEDED)
        assert done.attempts == 1


def test_a_model_that_cannot_be_loaded_is_named_and_the_others_are_served(tmp_path):
    with a_rig(tmp_path, models=(BROKEN, SLOW)) as rig:
        rig.worker("w")
        rig.wait_for_worker("w")
        job = new_job(model="slow")
        rig.submit(job)
        rig.wait_for(job.id, JobStatus.SUCCEEDED)
        rig.wait_until(lambda: (now := reported(rig, "w")) is not None and bool(now.failures))
        now = reported(rig, "w")
        assert now is not None and "no such family" in now.failures["broken"]


@pytest.mark.long
def test_what_one_worker_has_measured_another_does_not_measure_again(tmp_path):
    def known(name: str) -> bool:
        now = reported(rig, name)
        return now is not None and "slow" in now.costs

    def is_told(rig: Rig) -> bool:
        with rig.client() as client:
            told = read_measured(client, "cpu").get("slow")
        return told is not None and told.cost is not None

    with a_rig(tmp_path) as rig:
        first = rig.worker("first")
        rig.wait_until(lambda: known("first"))
        rig.wait_until(lambda: is_told(rig))
        first.terminate()
        first.wait(30.0)
        rig.worker("second")
        rig.wait_until(lambda: known("second"))
        rig.wait_for_worker("second")
        assert "model_tried" in (tmp_path / "first.log").read_text()
        assert "model_tried" not in (tmp_path / "second.log").read_text()


def test_a_worker_follows_its_folder_without_a_restart(tmp_path):
    with a_rig(tmp_path) as rig:
        rig.worker("w")
        rig.wait_for_worker("w")
        save_model(tmp_path / "models", HEAVY)
        rig.wait_until(lambda: (now := reported(rig, "w")) is not None and "heavy" in now.catalogue)
        rig.wait_until(lambda: (now := reported(rig, "w")) is not None and bool(now.models))
        shutil.rmtree(tmp_path / "models" / "slow")
        rig.wait_until(
            lambda: (
                (now := reported(rig, "w")) is not None
                and (now.models, now.catalogue) == ((), ("heavy",))
            )
        )
