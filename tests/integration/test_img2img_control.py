"""An image from a picture that ControlNets steer is that of stock's ControlNet-img2img pipeline."""

from dataclasses import replace

import pytest
import torch
from diffusers import (
    StableDiffusionControlNetImg2ImgPipeline,
    StableDiffusionControlNetPipeline,
    StableDiffusionXLControlNetImg2ImgPipeline,
    StableDiffusionXLControlNetPipeline,
)
from PIL import Image

from bench.parts.local_controlnets import LocalControlNets
from core.job import Control
from tests.control import ControlHouse, some_conditions
from tests.integration.test_img2img_parity import some_inputs
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import difference, engine_images
from worker.control.server.model_cache import ModelCache

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

STOCK = {
    "sdxl": (
        save_sdxl,
        StableDiffusionXLControlNetPipeline,
        StableDiffusionXLControlNetImg2ImgPipeline,
    ),
    "sd": (save_sd, StableDiffusionControlNetPipeline, StableDiffusionControlNetImg2ImgPipeline),
}
TOLERANCE = 1e-5
EARLY = Control(controlnet="edges", image="", end=0.5)


@pytest.mark.parametrize("family", STOCK)
def test_a_steered_image_from_a_picture_is_the_stock_pipelines(family, tmp_path):
    save, plain, kind = STOCK[family]
    house = ControlHouse(tmp_path, save, plain)
    recorder = house.recorder(LocalControlNets(ModelCache(house.load, 2**30)))
    job = a_job("j", model=house.model.name, controls=(EARLY,), steps=6, seed=3)
    inputs = replace(some_inputs(1, 0.7), conditions=some_conditions(1).images)
    beside = a_job("other", model=house.model.name, steps=5, seed=4)
    made = engine_images(recorder, [(0, job), (0, beside)], inputs={"j": inputs})["j"][0]
    pipe = kind(**house.pipe.components | {"controlnet": house.nets["edges"]})
    pipe.set_progress_bar_config(disable=True)
    expected = pipe(
        job.request.prompt,
        image=Image.fromarray(inputs.image),
        control_image=Image.fromarray(inputs.conditions[0]),
        strength=inputs.strength,
        width=job.request.width,
        height=job.request.height,
        num_inference_steps=job.request.steps,
        guidance_scale=job.request.guidance,
        controlnet_conditioning_scale=EARLY.scale,
        control_guidance_end=EARLY.end,
        generator=torch.Generator().manual_seed(job.request.seed),
        output_type="np",
    ).images[0]
    assert difference(made, expected) <= TOLERANCE
