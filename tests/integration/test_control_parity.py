"""Is an image that ControlNets steer the image of the stock ControlNet pipeline?"""

import pytest
from diffusers import StableDiffusionControlNetPipeline, StableDiffusionXLControlNetPipeline

from bench.parts.local_controlnets import LocalControlNets
from core.job import Control
from tests.control import ControlHouse, some_conditions
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_image

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

#: Rows of several images in one call: kernels add up in another order.
TOGETHER = 2e-6

EDGES = Control(controlnet="edges", image="")
WEAK = Control(controlnet="edges", image="", scale=0.4)
DEPTH = Control(controlnet="depth", image="", scale=1.5)
EARLY = Control(controlnet="edges", image="", end=0.5)
LATE = Control(controlnet="depth", image="", start=0.34, scale=0.7)
NEVER = Control(controlnet="depth", image="", start=0.45, end=0.55)

#: Family, what steers, and guidance: with it each image has two rows.
CASES = {
    "one": ("sdxl", (EDGES,), 5.0),
    "one, without guidance": ("sdxl", (EDGES,), 1.0),
    "a scale, another order of channels": ("sdxl", (DEPTH,), 5.0),
    "two": ("sdxl", (WEAK, DEPTH), 5.0),
    "parts of the schedule": ("sdxl", (EARLY, LATE), 5.0),
    "one that never acts": ("sdxl", (EDGES, NEVER), 5.0),
    "two, SD 1.5": ("sd", (EDGES, LATE), 5.0),
}


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    stock = {
        "sdxl": (save_sdxl, StableDiffusionXLControlNetPipeline),
        "sd": (save_sd, StableDiffusionControlNetPipeline),
    }
    return {name: ControlHouse(tmp_path_factory.mktemp(name), *of) for name, of in stock.items()}


@pytest.fixture(scope="module")
def house(houses):
    return houses["sdxl"]


@pytest.fixture(scope="module")
def recorder(house):
    return house.recorder(LocalControlNets(house.residents()))


@pytest.mark.parametrize(("family", "controls", "guidance"), CASES.values(), ids=CASES)
def test_a_steered_image_is_the_stock_pipelines_to_the_bit(houses, family, controls, guidance):
    house = houses[family]
    recorder = house.recorder(LocalControlNets(house.residents()))
    job = a_job(model=house.model.name, guidance=guidance, controls=controls)
    conditions = some_conditions(len(controls))
    image = engine_images(recorder, [(0, job)], inputs={job.id: conditions})[job.id][0]
    assert difference(image, house.stock_image(job.request, conditions)) == 0
    without = a_job(model=house.model.name, guidance=guidance)
    assert difference(image, engine_images(recorder, [(0, without)])[job.id][0]) > 0.02


def test_two_conditions_of_one_controlnet_share_its_call(house, recorder):
    job = a_job(model=house.model.name, controls=(EDGES, WEAK))
    conditions = some_conditions(2)
    image = engine_images(recorder, [(0, job)], inputs={job.id: conditions})[job.id][0]
    assert difference(image, house.stock_image(job.request, conditions)) <= TOGETHER


def test_rows_with_and_without_controlnets_share_a_batch(house, recorder):
    several = [(EDGES,), (), (WEAK, DEPTH), (LATE,), ()]
    jobs = [
        a_job(
            f"j{i}", at=float(i), model=house.model.name, seed=i, steps=3 + i % 3, controls=controls
        )
        for i, controls in enumerate(several)
    ]
    brought = {job.id: some_conditions(len(job.request.controls), i) for i, job in enumerate(jobs)}
    recorder.batches.clear()
    made = engine_images(recorder, list(enumerate(jobs)), inputs=brought)
    assert max(recorder.batches) >= 4
    for job in jobs:
        if job.request.controls:
            expected = house.stock_image(job.request, brought[job.id])
        else:
            expected = stock_image(house.pipe, house.pipe.scheduler, job.request)
        assert difference(made[job.id][0], expected) <= TOGETHER


def test_every_session_is_closed_when_its_image_is_made_or_fails(house):
    residents = house.residents()
    recorder = house.recorder(LocalControlNets(residents))
    name = house.model.name
    jobs = [
        a_job("good", model=name, controls=(EDGES, DEPTH)),
        a_job("broken", model=name, controls=(EDGES,), guidance=float("inf")),
        a_job("unknown", model=name, controls=(EDGES, Control(controlnet="pose", image=""))),
        a_job("bare", model=name, controls=(EDGES,)),
    ]
    brought = {job.id: some_conditions(len(job.request.controls)) for job in jobs[:3]}
    made = engine_images(recorder, [(0, job) for job in jobs], inputs=brought, are_failing=True)
    assert len(made["good"]) == 1
    assert "not finite" in str(made["broken"])
    assert "pose/config.json: missing" in str(made["unknown"])
    assert "without the conditions" in str(made["bare"])
    residents.expect("another", 2**40)
    assert residents.names == (), "none is in use"


def test_a_controlnet_of_another_model_is_named_in_the_failure(house, tmp_path):
    other = load_recorder(house.folder / "base", house.model)
    unet = load_stock(house.folder / "base").unet
    wide = type(unet).from_config(unet.config | {"layers_per_block": 2})
    house.nets["edges"].from_unet(
        wide, conditioning_embedding_out_channels=(8, 16)
    ).save_pretrained(house.folder / "wide")
    other.runner.overlays.steer(LocalControlNets(house.residents()))
    job = a_job(model=house.model.name, controls=(Control(controlnet="wide", image=""),))
    made = engine_images(other, [(0, job)], inputs={"j1": some_conditions(1)}, are_failing=True)
    assert "made for another model" in str(made["j1"])
