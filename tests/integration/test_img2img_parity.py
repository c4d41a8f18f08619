"""An image that starts from a picture is that of the stock img2img pipeline run alone."""

import inspect
from functools import cache

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

from tests.cases import rarely_but
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import (
    difference,
    engine_images,
    load_recorder,
    load_stock,
    stock_scheduler,
    stock_steps,
)
from worker.diffusion.runner import InitInputs

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

SAVE = {"sdxl": save_sdxl, "sd": save_sd, "sd3": save_sd3, "flux": save_flux}
TOLERANCE = {"sdxl": 1e-5, "sd": 1e-5, "sd3": 1e-4, "flux": 1e-4}
CASES = [
    *((family, None, strength) for family in SAVE for strength in (1.0, 0.6, 0.3)),
    *(("sdxl", sampler, 0.5) for sampler in ("ddim", "dpm++2m", "unipc", "euler-ancestral")),
    *(("sd", sampler, 0.6) for sampler in ("heun", "pndm", "lcm", "dpm++sde")),
    ("sd3", "heun", 0.6),
]


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    """Each is loaded once, in whatever order the cases come."""

    @cache
    def load(name):
        folder = tmp_path_factory.mktemp(name)
        model = SAVE[name](folder)
        stock = diffusers.AutoPipelineForImage2Image.from_pipe(load_stock(folder))
        stock.set_progress_bar_config(disable=True)
        return model, stock, stock.scheduler, load_recorder(folder, model)

    return load


@pytest.fixture(params=rarely_but(["sdxl", "flux"], SAVE))
def family(request, families):
    return families(request.param)


def some_inputs(seed, strength, height=32, width=32):
    picture = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return InitInputs(image=picture, strength=strength)


def stock_image(stock, own_scheduler, request, inputs):
    """Shapes: [H, W, 3] in [0, 1]."""
    stock.scheduler = stock_scheduler(own_scheduler, request.scheduler, request.sigma_spacing)
    asks_size = "height" in inspect.signature(stock.__call__).parameters
    size = {"height": request.height, "width": request.width} if asks_size else {}
    return stock(
        request.prompt,
        image=Image.fromarray(inputs.image),
        strength=inputs.strength,
        negative_prompt=request.negative_prompt,
        **stock_steps(request),
        generator=torch.Generator().manual_seed(request.seed),
        output_type="np",
        **size,
    ).images[0]


@pytest.mark.parametrize(("family", "sampler", "strength"), CASES, indirect=["family"])
def test_an_image_from_a_picture_alone_is_the_stock_pipelines(family, sampler, strength):
    model, stock, own_scheduler, recorder = family
    job = a_job("j", model=model.name, steps=6, scheduler=sampler, seed=5)
    inputs = some_inputs(1, strength)
    made = engine_images(recorder, [(0, job)], inputs={"j": inputs})["j"][0]
    expected = stock_image(stock, own_scheduler, job.request, inputs)
    assert difference(made, expected) <= TOLERANCE[model.family]
    if strength < 1.0:
        other = stock_image(stock, own_scheduler, job.request, some_inputs(2, strength))
        assert difference(made, other) > 0.01


def test_images_from_pictures_and_from_noise_share_a_batch_and_stay_themselves(family):
    model, stock, own_scheduler, recorder = family
    inputs = {f"p{i}": some_inputs(i, 1.0 - i / 4) for i in range(3)}
    jobs = [
        *((0, a_job(name, model=model.name, steps=6, seed=i)) for i, name in enumerate(inputs)),
        (1, a_job("new", model=model.name, steps=6, seed=9, guidance=1.0)),
    ]
    recorder.batches.clear()
    made = engine_images(recorder, jobs, inputs=inputs)
    assert max(recorder.batches) > 2
    for _, job in jobs[:-1]:
        expected = stock_image(stock, own_scheduler, job.request, inputs[job.id])
        assert difference(made[job.id][0], expected) <= TOLERANCE[model.family]
    alone = engine_images(recorder, [(0, jobs[-1][1])])
    assert difference(made["new"][0], alone["new"][0]) <= TOLERANCE[model.family]


def test_a_strength_that_leaves_no_step_says_so(families):
    model, _, _, recorder = families("sdxl")
    job, nothing = a_job("j", model=model.name, steps=4), some_inputs(1, strength=0.1)
    error = engine_images(recorder, [(0, job)], inputs={"j": nothing}, are_failing=True)["j"]
    assert "strength 0.1 leaves none of the steps" in str(error)
