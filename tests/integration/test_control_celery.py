"""A ControlNet worker is a Celery worker like any other, and a session is one of its tasks."""

import time

import pytest
from celery import Celery
from diffusers import StableDiffusionXLControlNetPipeline

from core.job import Control
from tests.control import ControlHouse, some_conditions
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sdxl
from tests.rig import a_rig
from tests.stock import difference, engine_images
from worker.control.client.remote import RemoteControlNets
from worker.control.offers import TASK, offer_by
from worker.engine.engine import Engine

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

EDGES = Control(controlnet="edges", image="")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return ControlHouse(
        tmp_path_factory.mktemp("house"), save_sdxl, StableDiffusionXLControlNetPipeline
    )


@pytest.fixture(scope="module")
def rig(tmp_path_factory, house):
    folder = tmp_path_factory.mktemp("rig")
    with a_rig(folder, ATELIER_CONTROLNETS_DIR=str(house.folder)) as rig:
        rig.start("control", "run.worker", "--control", ATELIER_WORKER_NAME="control@rig")
        rig.wait_until(lambda: b" ready." in (folder / "control.log").read_bytes(), 120.0)
        yield rig


@pytest.fixture
def operator(rig):
    app = Celery("operator", broker=rig.redis.url)
    yield app
    app.close()


@pytest.fixture
def remote(rig, operator):
    client = rig.client()
    remote = RemoteControlNets(offer_by(operator, client), arena_bytes=2**24, patience_s=180.0)
    yield remote
    remote.close()
    client.close()


def test_a_session_is_a_task_that_inspect_shows_and_that_ends_with_its_image(
    house, rig, operator, remote
):
    engine = Engine(max_slots=8, max_rows=16, slo_s=60)
    engine.attach(house.recorder(remote))
    job, brought = a_job(model=house.model.name, controls=(EDGES,)), some_conditions(1)
    future = engine.add(job, None, brought)
    while not engine.running or engine.running[0].step < 2:
        engine.step()
    [task] = operator.control.inspect(["control@rig"], timeout=60.0).active()["control@rig"]
    assert task["name"] == TASK and task["args"][0]["controlnet"] == "edges"
    while not future.done():
        engine.step()
    assert difference(future.result().images[0], house.stock_image(job.request, brought)) == 0
    rig.wait_until(lambda: operator.control.inspect().active() == {"control@rig": []})


def test_a_controlnet_that_is_not_there_fails_its_job_and_its_task(house, remote):
    for name, reason in {"pose": "pose/config.json: missing", "../edges": "no name"}.items():
        job = a_job(model=house.model.name, controls=(Control(controlnet=name, image=""),))
        brought = {job.id: some_conditions(1)}
        made = engine_images(house.recorder(remote), [(0, job)], inputs=brought, are_failing=True)
        assert reason in str(made[job.id])


def test_a_worker_that_is_told_to_stop_sees_its_sessions_to_their_end(house, rig, remote):
    engine = Engine(max_slots=8, max_rows=16, slo_s=60)
    engine.attach(house.recorder(remote))
    future = engine.add(a_job(model=house.model.name, controls=(EDGES,)), None, some_conditions(1))
    while not engine.running or engine.running[0].step < 2:
        engine.step()
    rig.processes["control"].terminate()
    time.sleep(0.5)
    while not future.done():
        engine.step()
    assert len(future.result().images) == 1
    assert rig.processes["control"].wait(60) == 0
