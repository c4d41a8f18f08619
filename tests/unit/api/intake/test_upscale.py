"""Pictures that are enlarged, from their submit to the record."""

from dataclasses import replace

import pytest
from PIL import Image

from core.job import Task
from core.model import Model, offered
from core.request.upscale import Upscale
from core.traits import Use, can_make, may
from tests.jobs import a_request
from tests.unit.api.conftest import MODELS, PLAN
from tests.unit.api.pictures import a_photo, data_url, opened, saved

UPSCALER = Model(
    name="anime",
    family="esrgan",
    default_steps=1,
    default_size=256,
    min_size=16,
    max_size=512,
    size_multiple=1,
    scale=4,
)
ASKED = {"task": "upscale", "image": data_url(a_photo(65, 40))}


@pytest.fixture
def stack(stack):
    stack.models = stack.scheduler.models = {"anime": UPSCALER} | MODELS
    stack.scheduler.plan = replace(PLAN, assignments={**PLAN.assignments, "w3@h": "anime"})
    return stack


async def submit(client, **changes):
    response = await client.post("/v1/jobs", json=ASKED | changes)
    assert response.status_code == 202, response.text
    return response.json()


async def refused(client, stack, **changes):
    """Ask for what is refused; return why, by field."""
    asked = {name: value for name, value in (ASKED | changes).items() if value is not None}
    response = await client.post("/v1/jobs", json=asked)
    assert response.status_code == 422, response.text
    assert not stack.stored() and not stack.store.records
    return {error["field"]: error["detail"] for error in response.json()["errors"]}


async def test_a_picture_goes_to_the_upscaler_that_nobody_named(client, stack):
    job = await submit(client)
    request = stack.store.records[job["id"]].job.request
    assert (job["model"], job["task"]) == ("anime", "upscale")
    assert (request.width, request.height, request.steps) == (65, 40, 1)
    assert request.inputs == {"picture": f"default/{job['id']}/inputs/picture.png"}
    assert opened(stack.objects.get(request.upscale.image)).size == (65, 40)
    assert job["placement"]["queue"] == "gen.anime"


async def test_each_window_of_a_large_picture_is_a_step(client, stack):
    job = await submit(client, image=data_url(a_photo(500, 300)))
    assert job["steps"] == job["progress"]["steps"] == 6
    assert stack.scheduler.calls[-1][0].steps == 6


async def test_what_is_transparent_is_laid_on_white(client, stack):
    clear = data_url(saved(Image.new("RGBA", (16, 16), (0, 0, 0, 0))))
    job = await submit(client, image=clear)
    request = stack.store.records[job["id"]].job.request
    stored = opened(stack.objects.get(request.upscale.image))
    assert (stored.mode, stored.getpixel((3, 3))) == ("RGB", (255, 255, 255))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"image": None}, "image"),
        ({"image": data_url(a_photo(600, 40))}, "image"),
        ({"image": data_url(a_photo(15, 40))}, "image"),
        ({"prompt": "a blue star"}, "prompt"),
        ({"strength": 0.5}, "strength"),
        ({"width": 64}, "width"),
        ({"steps": 4}, "steps"),
        ({"n": 2}, "n"),
        ({"seed": 2}, "seed"),
        ({"second_pass": {"scale": 2.0}}, "second_pass"),
        ({"template": "t"}, "template"),
        ({"model": "small"}, "model"),
    ],
)
async def test_what_says_nothing_of_it_is_refused_with_its_field(client, stack, changes, field):
    assert field in await refused(client, stack, **changes)


async def test_no_other_job_goes_to_an_upscaler(client, stack):
    plain = {"task": "generate", "prompt": "a blue star", "image": None}
    assert "by task 'upscale'" in (await refused(client, stack, **plain, model="anime"))["model"]
    own = await refused(client, stack, **plain, width=63)
    assert set(own) == {"width"}  # of models that could have made it
    job = await client.post("/v1/jobs", json={"prompt": "a blue star"})
    assert job.json()["model"] in MODELS
    assert "anime" not in stack.scheduler.calls[-1][0].models


async def test_without_an_upscaler_it_says_what_is_needed(stack):
    stack.models = MODELS
    async with stack.client() as client:
        said = await refused(client, stack)
    assert "atelier models add" in said["task"]


async def test_models_say_which_are_upscalers(client):
    anime = (await client.get("/v1/models/anime")).json()
    assert (anime["tasks"], anime["scale"], anime["samplers"]) == (["upscale"], 4, [])
    small = (await client.get("/v1/models/small")).json()
    assert (small["tasks"], small["scale"]) == (["generate", "edit"], 1)


async def test_a_webp_that_would_be_too_large_is_refused(client, stack):
    stack.models["anime"] = replace(UPSCALER, max_size=8192)
    async with stack.client() as larger:
        said = await refused(larger, stack, image=data_url(a_photo(5000, 20)), output_format="webp")
    assert "output_format" in said


def test_it_is_lent_scored_paced_and_moved_to_nobody():
    request = a_request(task=Task.UPSCALE, upscale=Upscale(image="i"), width=64, height=64)
    assert can_make(UPSCALER, replace(request, steps=1, model="anime"))
    for use in (Use.BORROW, Use.LEND, Use.COMPARE, Use.PACE, Use.PREDICT, Use.MOVE):
        assert not may(use, request)
    assert "anime" not in offered({"anime": UPSCALER} | MODELS)
