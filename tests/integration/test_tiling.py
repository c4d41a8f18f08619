"""Large pictures are those of the stock pipeline with its tiling switched on."""

from functools import partial

import diffusers
import pytest
import torch

from tests.cases import rarely_but
from tests.integration.test_edit_parity import some_inputs, stock_edit
from tests.integration.test_img2img_parity import some_inputs as picture_of
from tests.integration.test_img2img_parity import stock_image as stock_from_picture
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_image
from worker.diffusion import stock as of_stock

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

TOLERANCE = {"sd": 1e-5, "sdxl": 1e-5, "sd3": 1e-4, "flux": 1e-4}
SAVE = {
    "sd": save_sd,
    "sdxl": save_sdxl,
    "sd3": partial(save_sd3, channels=16, pos_embed_max_size=64),
    "flux": save_flux,
}
SIDE = 64  #: tiles of the tiny models have 32 pixels


@pytest.fixture(scope="module", params=rarely_but(["sdxl", "flux"], SAVE))
def family(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = SAVE[request.param](folder)
    pipe = load_stock(folder)
    pipe.set_progress_bar_config(disable=True)
    return model, pipe, load_recorder(folder, model)


def job_of(model, name="j", side=SIDE, **changes):
    return a_job(name, model=model.name, steps=2, width=side, height=side, **changes)


def test_pictures_of_two_mebipixels_are_whole_and_larger_ones_are_not():
    vae = diffusers.AutoencoderKL()
    for pixels, is_tiled in ((1024 * 2048, False), (1088 * 2048, True)):
        with of_stock.tiling(vae, pixels):
            assert vae.use_tiling is is_tiled
    assert not vae.use_tiling


def test_a_large_picture_is_stocks_in_tiles_and_a_small_one_is_not(family, monkeypatch):
    monkeypatch.setattr(of_stock, "LARGEST_WHOLE", SIDE * SIDE - 1)
    model, pipe, recorder = family
    jobs = {name: job_of(model, name, side) for name, side in (("large", SIDE), ("small", 48))}
    made = engine_images(recorder, [(0, job) for job in jobs.values()])
    own = pipe.scheduler
    for is_tiled in (True, False):
        pipe.vae.use_tiling = is_tiled
        for name, job in jobs.items():
            apart = difference(made[name][0], stock_image(pipe, own, job.request))
            assert (apart <= TOLERANCE[model.family]) is (is_tiled is (name == "large")), name
    pipe.vae.use_tiling, pipe.scheduler = False, own


def test_a_large_picture_to_begin_from_is_encoded_in_tiles_as_stock_does(family, monkeypatch):
    monkeypatch.setattr(of_stock, "LARGEST_WHOLE", SIDE * SIDE - 1)
    model, pipe, recorder = family
    stock, job = diffusers.AutoPipelineForImage2Image.from_pipe(pipe), job_of(model)
    stock.set_progress_bar_config(disable=True)
    inputs = picture_of(1, strength=0.6, height=SIDE, width=SIDE)
    made = engine_images(recorder, [(0, job)], inputs={"j": inputs})["j"][0]
    own, apart = pipe.scheduler, []
    for is_tiled in (True, False):
        stock.vae.use_tiling = is_tiled
        apart.append(difference(made, stock_from_picture(stock, own, job.request, inputs)))
    stock.vae.use_tiling = False
    assert apart[0] <= TOLERANCE[model.family] < apart[1]


def test_a_large_template_is_encoded_in_tiles_as_stock_does(family, monkeypatch):
    monkeypatch.setattr(of_stock, "LARGEST_WHOLE", SIDE * SIDE - 1)
    model, pipe, recorder = family
    stock, job = diffusers.AutoPipelineForInpainting.from_pipe(pipe), job_of(model)
    stock.set_progress_bar_config(disable=True)
    inputs = some_inputs(1, side=SIDE, strength=0.6)
    made = engine_images(recorder, [(0, job)], inputs={"j": inputs})["j"][0]
    own = pipe.scheduler
    stock.vae.enable_tiling()
    with torch.no_grad():
        expected = stock_edit(stock, own, job.request, inputs)
    stock.vae.disable_tiling()
    assert difference(made, expected) <= 1e-4
    assert difference(made, stock_edit(stock, own, job.request, inputs)) > 1e-4
