"""An image with a second pass is that of two stock pipelines, one after the other."""

from dataclasses import replace
from functools import cache

import diffusers
import numpy as np
import pytest
from PIL import Image

from core.family import Spacing
from core.request.init_image import InitImage
from core.request.second_pass import SecondPass
from tests.integration.test_img2img_parity import some_inputs
from tests.integration.test_img2img_parity import stock_image as stock_from_image
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import (
    Recorder,
    difference,
    engine_images,
    load_recorder,
    load_stock,
    stock_image,
)
from worker.engine.engine import Engine

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

SAVE = {"sdxl": save_sdxl, "sd": save_sd, "sd3": save_sd3, "flux": save_flux}
TOLERANCE = {"sdxl": 1e-5, "sd": 1e-5, "sd3": 1e-4, "flux": 1e-4}
TWICE = SecondPass(scale=2.0, strength=0.6)
CASES = [
    *((name, {}) for name in SAVE),
    ("sdxl", {"scheduler": "dpm++2m", "sigma_spacing": Spacing.KARRAS}),
    ("sdxl", {"guidance_rescale": 0.7}),
    ("sd", {"scheduler": "heun"}),
]


class TwiceRecorder(Recorder):
    """Hands pixels over as workers do, so that a second pass has some; keeps floats as well."""

    def __init__(self, runner):
        super().__init__(runner)
        self.pixels = []

    def decode(self, sample):
        self.images.append(super().decode(sample))
        self.pixels.append(self.runner.decode(sample))
        return self.pixels[-1]


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    @cache
    def load(name):
        folder = tmp_path_factory.mktemp(name)
        model = SAVE[name](folder)
        stock = load_stock(folder)
        stock.set_progress_bar_config(disable=True)
        return model, stock, stock.scheduler, load_recorder(folder, model).runner

    return load


def stock_first(stock, own_scheduler, request, inputs=None):
    """Shapes: [H, W, 3] in [0, 1]."""
    if inputs is None:
        return stock_image(stock, own_scheduler, request)
    return stock_from_image(from_pictures(stock), own_scheduler, request, inputs)


def stock_twice(stock, own_scheduler, request, pixels=None):
    """Go on from the first pass, or from its pixels. Shapes: [H, W, 3] in [0, 1]."""
    if pixels is None:
        pixels = (stock_first(stock, own_scheduler, request) * 255).round().astype(np.uint8)
    second = request.following
    size = (second.width, second.height)
    larger = Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
    again = replace(some_inputs(0, second.strength), image=np.asarray(larger))
    return stock_from_image(from_pictures(stock), own_scheduler, second, again)


def from_pictures(stock):
    img2img = diffusers.AutoPipelineForImage2Image.from_pipe(stock)
    img2img.set_progress_bar_config(disable=True)
    return img2img


def assert_stock(recorder, stock, own_scheduler, request, inputs=None):
    """Hold both passes against stock's, the second from the same pixels.

    A value of the first at .5 may be rounded either way: that is no matter of the second.
    """
    tolerance = TOLERANCE[recorder.model.family]
    first = stock_first(stock, own_scheduler, request, inputs)
    second = stock_twice(stock, own_scheduler, request, recorder.pixels[0])
    assert difference(recorder.images[0], first) <= tolerance
    assert difference(recorder.pixels[0] / 255.0, first) <= 0.5 / 255 + tolerance
    assert difference(recorder.images[-1], second) <= tolerance


@pytest.mark.parametrize(("name", "told"), CASES, ids=str)
def test_a_second_pass_is_a_second_stock_pipeline(families, name, told):
    model, stock, own_scheduler, runner = families(name)
    job = a_job("j", model=model.name, steps=5, seed=3, second_pass=TWICE, **told)
    recorder = TwiceRecorder(runner)
    [pixels] = engine_images(recorder, [(0, job)])["j"]
    assert pixels.shape == (64, 64, 3)
    assert len(recorder.images) == 2
    assert_stock(recorder, stock, own_scheduler, job.request)


def test_second_passes_share_batches_with_strangers_of_either_size(families):
    model, stock, own_scheduler, runner = families("sdxl")
    other = SecondPass(scale=1.5, strength=0.5, steps=4)
    jobs = {
        "twice": a_job("twice", model=model.name, steps=4, seed=1, second_pass=TWICE),
        "large": a_job("large", model=model.name, steps=9, seed=2, width=64, height=64),
        "small": a_job("small", model=model.name, steps=9, seed=3),
        "more": a_job("more", model=model.name, steps=5, seed=4, second_pass=other, n=2),
    }
    recorder = TwiceRecorder(runner)
    made = engine_images(recorder, [(0, job) for job in jobs.values()])
    assert max(recorder.batches) > 2
    for name, job in jobs.items():
        for at, pixels in enumerate(made[name]):
            request = replace(job.request, seed=job.request.seed + at)
            make = stock_twice if request.second_pass else stock_image
            expected = make(stock, own_scheduler, request)
            assert difference(pixels / 255.0, expected) <= 0.5 / 255 + 1e-4, name


def test_an_image_from_a_picture_may_have_a_second_pass(families):
    model, stock, own_scheduler, runner = families("sd")
    init = InitImage(image="t/i.png", strength=0.5)
    job = a_job("j", model=model.name, steps=6, second_pass=TWICE, init_image=init)
    recorder, inputs = TwiceRecorder(runner), some_inputs(1, 0.5)
    engine_images(recorder, [(0, job)], inputs={"j": inputs})
    assert_stock(recorder, stock, own_scheduler, job.request, inputs)


def test_a_progress_counts_both_passes_by_what_they_take(families):
    model, _, _, runner = families("sdxl")
    job = a_job("j", model=model.name, steps=10, second_pass=TWICE)
    assert job.request.share == pytest.approx(1 + 4 * 0.6)
    seen = []

    class Watched(TwiceRecorder):
        def forward(self, samples):
            seen.append(engine.progress()["j"].step)
            return super().forward(samples)

    engine = Engine(max_slots=2, max_rows=4, slo_s=60)
    engine.attach(Watched(runner))
    made = engine.add(job, None)
    while not made.done():
        engine.step()
    assert len(seen) == 10 + 6
    assert seen == sorted(seen)
    assert seen[10] == int(10 / 3.4) and seen[-1] == 8
