"""An image whose steps are told more than their number is that of the stock pipeline run alone."""

from functools import cache

import diffusers
import numpy as np
import pytest

from core.family import SPACED, Spacing
from tests.cases import rarely_but
from tests.integration.test_img2img_parity import some_inputs
from tests.integration.test_img2img_parity import stock_image as stock_from_image
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import (
    difference,
    engine_images,
    load_recorder,
    load_stock,
    stock_image,
)

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

SAVE = {"sdxl": save_sdxl, "sd": save_sd, "sd3": save_sd3, "flux": save_flux}
TOLERANCE = {"sdxl": 1e-5, "sd": 1e-5, "sd3": 1e-4, "flux": 1e-4}
LEVELS = (14.6, 7.1, 3.0, 1.2, 0.4, 0.0)
OF_FLOW = (1.0, 0.8, 0.55, 0.3, 0.1)
RESCALED = {"guidance_rescale": 0.7}

CASES = [
    *(("sdxl", {"scheduler": n, "sigma_spacing": s}) for n in sorted(SPACED) for s in Spacing),
    *((f, {"scheduler": "euler", "sigma_spacing": s}) for f in ("sd3", "flux") for s in Spacing),
    *((family, {"scheduler": "euler", "sigmas": LEVELS}) for family in ("sdxl", "sd")),
    *((family, {"scheduler": "euler", "sigmas": OF_FLOW}) for family in ("sd3", "flux")),
    *(("sdxl", {"scheduler": name, "eta": eta}) for name in ("ddim", "tcd") for eta in (0.3, 1.0)),
    ("sd", {"scheduler": "tcd"}),
    *((family, RESCALED) for family in ("sdxl", "sd")),
    ("sd", {**RESCALED, "guidance": 1.0}),
    ("sdxl", {**RESCALED, "scheduler": "dpm++2m", "sigma_spacing": Spacing.BETA}),
]  # fmt: skip
#: One of a kind. All of them are made in one batch too.
QUICK = [
    ("sdxl", {"scheduler": "dpm++2m", "sigma_spacing": Spacing.KARRAS}),
    ("flux", {"scheduler": "euler", "sigma_spacing": Spacing.BETA}),
    ("sd", {"scheduler": "euler", "sigmas": LEVELS}),
    ("sdxl", {"scheduler": "tcd", "eta": 0.3}),
    ("sd", {**RESCALED, "guidance": 1.0}),
]


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    """Each is loaded once, in whatever order the cases come, and asked once for an image alone."""

    @cache
    def load(name):
        folder = tmp_path_factory.mktemp(name)
        model = SAVE[name](folder)
        stock = load_stock(folder)
        stock.set_progress_bar_config(disable=True)
        own_scheduler = stock.scheduler

        @cache
        def alone(at):
            return stock_image(stock, own_scheduler, a_case(name, model, at).request)

        return model, stock, own_scheduler, load_recorder(folder, model), alone

    return load


def a_told(name, model, told, **more):
    return a_job(name, model=model.name, **{"steps": 5, "seed": 3} | told | more)


def cases_of(name):
    """What a family is told, and how not; the place of each is the seed of its image."""
    return [*(told for family, told in CASES if family == name), {}]


def a_case(name, model, at):
    return a_told(f"j{at}", model, cases_of(name)[at], seed=at)


@pytest.mark.parametrize(("name", "told"), rarely_but(QUICK, CASES), ids=str)
def test_steps_that_are_told_more_are_those_of_the_stock_pipeline(families, name, told):
    model, _, _, recorder, alone = families(name)
    at = cases_of(name).index(told)
    job = a_case(name, model, at)
    made = engine_images(recorder, [(0, job)])[job.id][0]
    assert difference(made, alone(at)) <= TOLERANCE[name]
    is_unheeded = told.get("guidance") == 1.0 or told == {"scheduler": "tcd"}
    plain = a_told("j", model, {"scheduler": told.get("scheduler")}, seed=at)
    is_same = difference(made, engine_images(recorder, [(0, plain)])["j"][0]) < 1e-4
    assert is_same == is_unheeded or is_unheeded


@pytest.mark.parametrize("name", SAVE)
def test_images_whose_steps_are_told_other_things_share_a_batch(families, name):
    model, _, _, recorder, alone = families(name)
    jobs = [a_case(name, model, at) for at in range(len(cases_of(name)))]
    recorder.batches.clear()
    made = engine_images(recorder, [(at // 4, job) for at, job in enumerate(jobs)])
    assert max(recorder.batches) > 2
    for at, job in enumerate(jobs):
        assert difference(made[job.id][0], alone(at)) <= TOLERANCE[name], job.request


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sdxl", {"scheduler": "euler", "sigmas": LEVELS, **RESCALED}),
        ("sdxl", {"scheduler": "heun", "sigma_spacing": Spacing.KARRAS}),
        ("sdxl", {"scheduler": "ddim", "eta": 0.5}),
        ("sd", {"scheduler": "tcd", "eta": 0.5}),
        ("flux", {"scheduler": "euler", "sigmas": OF_FLOW}),
    ],
    ids=str,
)
def test_an_image_from_a_picture_is_told_likewise(families, name, told):
    model, pipe, own_scheduler, recorder, _ = families(name)
    job, inputs = a_told("j", model, told), some_inputs(1, 0.6)
    made = engine_images(recorder, [(0, job)], inputs={"j": inputs})["j"][0]
    stock = diffusers.AutoPipelineForImage2Image.from_pipe(pipe)
    stock.set_progress_bar_config(disable=True)
    expected = stock_from_image(stock, own_scheduler, job.request, inputs)
    assert np.isfinite(made).all()
    assert difference(made, expected) <= TOLERANCE[name]
