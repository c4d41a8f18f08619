"""What each field of a request decides: a field without a row fails, so say what it does."""

from dataclasses import dataclass, fields, replace

import pytest

from core.job import Control, Edit, JobRequest, JobStatus, Priority, Quality, StoredImage, Task
from core.job import WebhookTarget as Webhook
from core.latents import LatentKey
from core.recipe import Recipe
from core.uploads.lora import LoraUse
from core.variant import Model
from tasks.jobs.score import is_comparable
from tests.jobs import a_job

MODEL = Model(name="tiny", family="sdxl", default_steps=4, default_size=32)
EDIT = Edit(template="t/i.png", template_sha256="ab", mask="t/m.png")
LORA = LoraUse(id="ink", key="k", models=("tiny",), size_bytes=1, sha256="cd")


@dataclass(frozen=True, kw_only=True)
class Decides:
    """Another value of a field, and what is another thing with it."""

    other: object
    recipe: bool = False  #: what was recorded of its template is of no use
    terms: bool = False  #: the latents it leaves are of no use
    quality: bool = False  #: its image says nothing of its level


#: Of an edit without guidance, where the guidance scale is part of the recipe.
FIELDS = {
    "task": Decides(other=Task.EDIT, quality=True),
    "prompt": Decides(other="another"),  # compared by how near it is, and with the image
    "model": Decides(other="base", recipe=True, terms=True),  # scores are kept by level
    "width": Decides(other=64, recipe=True, terms=True, quality=True),
    "height": Decides(other=64, recipe=True, terms=True, quality=True),
    "steps": Decides(other=5, recipe=True, terms=True, quality=True),
    "guidance": Decides(other=1.0, recipe=True, terms=True, quality=True),
    "seed": Decides(other=7),  # of an image: a recipe is made for each
    "negative_prompt": Decides(other="blue", quality=True),  # such jobs lend and borrow nothing
    "n": Decides(other=2),
    "edit": Decides(other=replace(EDIT, template_sha256="ef"), recipe=True),  # its task says so
    "controls": Decides(other=(Control(controlnet="depth", image="i"),), quality=True),
    "loras": Decides(other=(LORA,), recipe=True, terms=True, quality=True),
    "scheduler": Decides(other="ddim", recipe=True, terms=True, quality=True),
    "application": Decides(other="a"),
    "slo_s": Decides(other=9.0),
    "quality": Decides(other=Quality.EXACT),
    "priority": Decides(other=Priority.BATCH),
    "webhook": Decides(other=Webhook(url="https://e.org")),
    "metadata": Decides(other={"a": "b"}),
    "filled": Decides(other=("steps",)),
}


def a_finished_job(**changes):
    image = StoredImage(key="k", width=32, height=32, seed=0, sha256="ab")
    return replace(a_job(**changes), status=JobStatus.SUCCEEDED, images=(image,))


def recipe_of(job):
    request = job.request if job.request.edit else replace(job.request, edit=EDIT)
    return Recipe.of(request, 0, is_guided=False)


def test_every_field_of_a_request_has_its_row():
    assert {field.name for field in fields(JobRequest)} == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_decides_what_its_row_says(name):
    row, plain = FIELDS[name], a_finished_job(guidance=MODEL.default_guidance)
    other = replace(plain, request=replace(plain.request, **{name: row.other}))
    assert (recipe_of(other).digest != recipe_of(plain).digest) == row.recipe
    assert (other.request.terms != plain.request.terms) == row.terms
    assert is_comparable(plain, MODEL)
    assert is_comparable(other, MODEL) != row.quality


def test_loras_of_no_strength_change_nothing():
    plain, off = a_finished_job(), a_finished_job(loras=(replace(LORA, scale=0.0),))
    assert is_comparable(off, MODEL)
    assert recipe_of(off) == recipe_of(plain)
    assert off.request.terms == plain.request.terms


def test_strengths_that_are_nearly_equal_are_two():
    nearly = [replace(LORA, scale=scale) for scale in (0.8, 0.8000001)]
    one, two = (a_finished_job(loras=(lora,)).request.terms for lora in nearly)
    assert one != two


@pytest.mark.parametrize("kind", [Recipe, LatentKey])
def test_a_key_tells_any_two_that_differ_in_a_field(kind):
    plain = {"model": "m", "template": "ab", "seed": 1, "steps": 4, "scheduler": None}
    plain |= {"width": 64, "height": 64, "negative_prompt": None, "guidance": None}
    plain |= {"adapters": (), "is_guided": True}
    own = kind(**{field.name: plain[field.name] for field in fields(kind)})
    others = {replace(own, **{field.name: "another"}) for field in fields(kind)}
    assert len(others | {own}) == len(fields(kind)) + 1
    if kind is Recipe:
        assert len({each.digest for each in others | {own}}) == len(fields(kind)) + 1
