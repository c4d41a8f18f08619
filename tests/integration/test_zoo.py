"""Does the engine serve every model of the zoo, as stock diffusers would?"""

from pathlib import Path

import numpy as np
import pytest

from catalog.models import read_models
from tests.cases import rarely_but
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_image
from zoo.checker import Aspect, check
from zoo.scenes import held_out

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

WEIGHTS = Path(__file__).parents[2] / "zoo" / "weights"
MODELS = read_models(WEIGHTS)
SCENE = held_out(1, 1, seed=2)[0]


#: One of each family, without guidance and with; the others are trained alike.
QUICK = ("shapes-turbo", "shapes-s", "shapes-dit")


@pytest.mark.parametrize("name", rarely_but(QUICK, MODELS))
def test_a_job_that_names_a_model_gets_the_image_of_the_stock_pipeline(name):
    model, folder = MODELS[name], WEIGHTS / name
    job = a_job(
        "named",
        model=name,
        prompt=SCENE.caption,
        width=model.default_size,
        height=model.default_size,
        steps=min(12 if model.default_size == 64 else 6, model.default_steps),
        guidance=model.default_guidance,
        seed=5,
    )
    made = engine_images(load_recorder(folder, model), [(0, job)])["named"][0]
    pipe = load_stock(folder)
    pipe.set_progress_bar_config(disable=True)
    assert difference(made, stock_image(pipe, pipe.scheduler, job.request)) <= 1e-4
    picture = (np.asarray(made).clip(0, 1) * 255).round().astype(np.uint8)
    parts = check(picture, SCENE).parts
    assert all(part.is_right for part in parts if part.aspect is Aspect.COLOUR)
