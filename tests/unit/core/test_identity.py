"""Every field of a request has its row in `core.traits`, and decides what that says."""

from dataclasses import MISSING, fields, replace

import pytest

from core.family import FAMILIES, Spacing
from core.job import Control, Edit, JobRequest, JobStatus, Priority, Quality, StoredImage, Task
from core.job import WebhookTarget as Webhook
from core.latents import LatentKey
from core.model import Model
from core.recipe import Recipe
from core.request.init_image import InitImage
from core.request.output import Output, OutputFormat
from core.request.prompt_syntax import PromptSyntax
from core.request.second_pass import SecondPass
from core.request.upscale import Upscale
from core.traits import (
    TRAITS,
    Key,
    Use,
    can_make,
    faults,
    image_key,
    is_as_profiled,
    key_of,
    latent_key,
    may,
)
from core.uploads.embedding import AppliedEmbedding
from core.uploads.ip_adapter import AppliedIpAdapter
from core.uploads.lora import AppliedLora
from tasks.jobs.score import is_comparable
from tests.jobs import a_job

MODEL = Model(name="tiny", family="sdxl", default_steps=4, default_size=32, min_size=32)
EDIT = Edit(template="t/i.png", template_sha256="ab", mask="t/m.png")
WEBP = Output(format=OutputFormat.WEBP, quality=90)
#: Of these no model is at fault.
NAMELESS = {"strength", "loras.1.id", "output_format", "sigmas", "eta"}
NAMELESS |= {"second_pass", "second_pass.strength"}
LEVELS = (9.0, 3.0, 0.0)
INIT = InitImage(image="i", strength=0.6)
TWICE = SecondPass(scale=2.0, strength=0.5)
LORA = AppliedLora(id="ink", key="k", models=("tiny",), size_bytes=1, sha256="cd")
SHOWN = AppliedIpAdapter(id="ip", image="i", models=("tiny",), scale=0.6)

CAT = AppliedEmbedding(
    id="cat", key="k", models=("tiny",), token="<cat>", num_vectors=1, sha256="ef"
)
#: What `core.identity.words` is about.
SAID = {
    "prompt_2": "bright",
    "prompt_3": "large",
    "negative_prompt_2": "dark",
    "negative_prompt_3": "small",
    "prompt_syntax": PromptSyntax.WEIGHTED,
    "clip_skip": 1,
    "original_size": (64, 64),
    "crop": (1, 2),
    "target_size": (64, 64),
    "negative_original_size": (64, 64),
    "negative_crop": (1, 2),
    "negative_target_size": (64, 64),
    "embeddings": (CAT,),
}
#: What `core.identity.steps` is about.
STEPS = {
    "sigma_spacing": Spacing.KARRAS,
    "sigmas": (9.0, 0.0),
    "eta": 0.5,
    "guidance_rescale": 0.7,
}
SPACINGS = {"sigma_spacing", "sigmas"}
SIZES = {name for name in SAID if name.endswith(("size", "crop"))}
NEGATIVES = {"negative_prompt_2", "negative_prompt_3"}

#: Another value of each field than that of `PLAIN`.
OTHERS = {
    "task": Task.EDIT,
    "prompt": "another",
    "model": "base",
    "width": 64,
    "height": 64,
    "steps": 5,
    "guidance": 1.0,
    "seed": 7,
    "negative_prompt": "blue",
    **SAID,
    "n": 2,
    "edit": EDIT,
    "init_image": INIT,
    "second_pass": TWICE,
    "upscale": Upscale(image="i"),
    "controls": (Control(controlnet="depth", image="i"),),
    "ip_adapter": SHOWN,
    "loras": (LORA,),
    "scheduler": "ddim",
    **STEPS,
    "output": Output(format=OutputFormat.WEBP, quality=40),
    "application": "a",
    "slo_s": 9.0,
    "quality": Quality.EXACT,
    "priority": Priority.BATCH,
    "webhook": Webhook(url="https://e.org"),
    "metadata": {"a": "b"},
    "filled": (),
}

#: Fields that stand in the way of a use when they have their other value.
BARRED = {
    Use.BORROW: {"task", "edit", "init_image", "negative_prompt", "n", "controls", "quality"}
    | {"second_pass", "upscale", "ip_adapter", *SAID, *STEPS},
    Use.LEND: {"task", "edit", "init_image", "negative_prompt", "controls", *SAID, *STEPS}
    | {"second_pass", "upscale", "ip_adapter"},
    Use.COMPARE: {"task", "edit", "width", "height", "steps", "guidance", "negative_prompt"}
    | {"init_image", "second_pass", "upscale", "controls", "loras", "scheduler", "output"}
    | {"ip_adapter", *SAID, *STEPS},
    Use.PACE: {
        "task",
        "edit",
        "second_pass",
        "upscale",
        "width",
        "height",
        "controls",
        "prompt_syntax",
        "ip_adapter",
    },
    Use.PREDICT: {"task", "edit", "upscale"},
    Use.REUSE: {"quality", "prompt_syntax", "ip_adapter"},
    Use.LATE: {"task", "edit", "init_image", "second_pass", "upscale", "quality"},
    Use.MOVE: {"controls", "upscale", "quality", "filled"},
}
OF_LATENTS = {"model", "width", "height", "steps", "guidance", "scheduler", "loras"}
#: Fields that a key depends on, of a model that weighs no negative prompt.
KEYS = {
    Key.LATENTS: OF_LATENTS,
    Key.RECORDING: OF_LATENTS
    | {"seed", "edit", "embeddings"}
    | SIZES
    | SPACINGS,  # guidance: of models told the scale
    Key.PROMPT: {"prompt", "negative_prompt", *SAID} - SIZES,
    Key.BATCH: {"width", "height", "ip_adapter"},
}


def a_finished_job(**changes):
    image = StoredImage(key="k", width=32, height=32, seed=0, sha256="ab")
    changes = {"guidance": MODEL.default_guidance, "filled": ("model",)} | changes
    return replace(a_job(**changes), status=JobStatus.SUCCEEDED, images=(image,))


PLAIN = a_finished_job().request


def other(name):
    return replace(PLAIN, **{name: OTHERS[name]})


def is_free(use, request):
    relative = use in (Use.COMPARE, Use.PACE)
    return is_as_profiled(use, request, MODEL) if relative else may(use, request)


def test_every_field_of_a_request_has_its_row_and_a_reason():
    assert list(TRAITS) == [field.name for field in fields(JobRequest)]
    assert all(row.why for row in TRAITS.values())
    assert set(OTHERS) == set(TRAITS)


@pytest.mark.parametrize("use", Use)
def test_a_use_is_barred_by_the_fields_that_should_bar_it(use):
    assert is_free(use, PLAIN)
    assert {name for name in TRAITS if not is_free(use, other(name))} == BARRED[use]


@pytest.mark.parametrize("key", Key)
def test_a_key_takes_the_fields_that_it_depends_on(key):
    own = key_of(key, PLAIN, is_guided=False)
    assert {n for n in TRAITS if key_of(key, other(n), is_guided=False) != own} == KEYS[key]


def test_an_image_goes_on_as_another_only_where_all_is_equal_that_it_is_made_of():
    """A field that is new counts, until its row says that it makes no difference."""
    told = {"n", "output", "application", "slo_s", "priority", "webhook", "metadata", "filled"}
    own = image_key(PLAIN)
    assert {name for name in TRAITS if image_key(other(name)) == own} == told


def test_a_recording_depends_on_the_negative_prompt_where_one_is_weighed_and_then_not_the_scale():
    own = key_of(Key.RECORDING, PLAIN, is_guided=True)
    others = {n for n in TRAITS if key_of(Key.RECORDING, other(n), is_guided=True) != own}
    assert others == KEYS[Key.RECORDING] - {"guidance"} | {"negative_prompt"} | NEGATIVES


@pytest.mark.parametrize("name", [name for name, row in TRAITS.items() if row.is_set is None])
def test_what_a_model_fills_in_bars_only_what_is_compared_with_a_profile(name):
    row = TRAITS[name]
    assert row.bars <= {Use.COMPARE, Use.PACE}
    assert not row.bars or name in MODEL.defaults()


@pytest.mark.parametrize(
    ("changes", "model", "field"),
    [
        ({"task": Task.EDIT}, {"family": "sketch"}, "model"),
        ({"edit": EDIT}, {"family": "sketch"}, "model"),
        ({"edit": replace(EDIT, strength=0.2)}, {}, "strength"),
        ({"init_image": INIT}, {"family": "sketch"}, "image"),
        ({"init_image": replace(INIT, strength=0.2)}, {}, "strength"),
        ({"guidance_rescale": 0.7}, {"family": "sd3"}, "guidance_rescale"),
        ({"sigma_spacing": Spacing.BETA}, {}, "sigma_spacing"),
        ({"sigma_spacing": Spacing.BETA, "scheduler": "dpm++2m-karras"}, {}, "sigma_spacing"),
        ({"sigma_spacing": Spacing.BETA, "scheduler": "heun"}, {"family": "sd3"}, "sigma_spacing"),
        ({"sigmas": LEVELS, "steps": 2}, {}, "sigmas"),
        ({"sigmas": LEVELS, "steps": 2, "scheduler": "heun"}, {}, "sigmas"),
        ({"sigmas": LEVELS, "steps": 3, "scheduler": "euler"}, {}, "sigmas"),
        ({"sigmas": (1.0, 2.0, 0.0), "steps": 2, "scheduler": "euler"}, {}, "sigmas"),
        ({"sigmas": LEVELS, "steps": 3, "scheduler": "euler"}, {"family": "sd3"}, "sigmas"),
        ({"eta": 0.5}, {}, "eta"),
        ({"eta": 0.5, "scheduler": "euler"}, {}, "eta"),
        ({"eta": 0.5, "scheduler": "euler"}, {"family": "flux"}, "eta"),
        ({"second_pass": TWICE}, {"family": "sketch"}, "second_pass"),
        (
            {"second_pass": TWICE, "controls": (Control(controlnet="c", image="i"),)},
            {},
            "second_pass",
        ),
        ({"second_pass": replace(TWICE, scale=8.0)}, {}, "second_pass.scale"),
        ({"second_pass": replace(TWICE, scale=1.3)}, {"size_multiple": 16}, "second_pass.scale"),
        ({"second_pass": replace(TWICE, strength=0.1)}, {}, "second_pass.strength"),
        ({"second_pass": replace(TWICE, steps=500)}, {}, "second_pass.steps"),
        (
            {"output": WEBP, "second_pass": TWICE, "width": 9600},
            {"max_size": 20000},
            "output_format",
        ),
        ({"width": 48, "height": 64}, {"min_size": 64}, "width"),
        ({"width": 64, "height": 72}, {}, "height"),
        ({"steps": 101}, {}, "steps"),
        ({"scheduler": "lcm", "steps": 51}, {}, "steps"),
        ({"scheduler": "ddim"}, {"family": "sd3"}, "scheduler"),
        ({"output": WEBP, "width": 16384}, {"max_size": 20000}, "output_format"),
        ({"negative_prompt": "blue"}, {"family": "flux"}, "negative_prompt"),
        ({"prompt_2": "blue"}, {"family": "sd"}, "prompt_2"),
        ({"prompt_3": "blue"}, {}, "prompt_3"),
        ({"negative_prompt_2": "blue"}, {}, "negative_prompt_2"),
        ({"clip_skip": 0}, {"family": "flux"}, "clip_skip"),
        ({"prompt_syntax": PromptSyntax.WEIGHTED}, {"family": "sd3"}, "prompt_syntax"),
        ({"crop": (0, 0)}, {"family": "sd3"}, "crop"),
        ({"negative_original_size": (8, 8)}, {}, "negative_original_size"),
        ({"negative_crop": (0, 0)}, {}, "negative_crop"),
        ({"embeddings": (CAT,)}, {"name": "base"}, "embeddings.0.id"),
        ({"ip_adapter": SHOWN}, {"name": "base"}, "ip_adapter.id"),
        ({"ip_adapter": SHOWN}, {"family": "sd3"}, "ip_adapter"),
        ({"loras": (LORA,)}, {"name": "base"}, "loras.0.id"),
        ({"loras": (LORA, replace(LORA, models=("base",)))}, {}, "loras.1.id"),
    ],
)
def test_a_model_makes_what_keeps_to_its_limits_and_says_which_field_does_not(
    changes, model, field
):
    assert can_make(MODEL, PLAIN)
    changed, asked = replace(MODEL, **model), replace(PLAIN, **changes)
    assert not can_make(changed, asked)
    [fault] = faults(changed, asked)
    assert fault.field == field
    own = changed.name in fault.detail or "give both, or neither" in fault.detail
    assert own or field in NAMELESS


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("steps", [1, 4])
def test_a_field_that_is_left_out_is_refused_only_where_its_row_says_so(family, steps):
    model = replace(MODEL, family=family)
    plain = JobRequest(
        prompt="a", model="tiny", width=32, height=32, steps=steps, guidance=1, seed=0
    )
    own = {field.name for field in fields(JobRequest) if field.default is not MISSING}
    rows = [row for name, row in TRAITS.items() if name in own and row.refuses is not None]
    assert [row.why for row in rows if not row.refuses_default and row.refuses(model, plain)] == []
    wrong = [row.refuses(model, plain) for row in TRAITS.values() if row.refuses is not None]
    assert faults(model, plain) == [each for each in wrong if each is not None]


def test_only_finished_images_that_ask_for_nothing_special_are_scored():
    assert is_comparable(a_finished_job(), MODEL)
    assert not is_comparable(replace(a_finished_job(), images=()), MODEL)
    assert not is_comparable(a_finished_job(scheduler="ddim"), MODEL)


def recipe_of(job):
    return Recipe.of(replace(job.request, edit=EDIT), 0, is_guided=False)


def test_loras_of_no_strength_change_nothing():
    plain, off = a_finished_job(), a_finished_job(loras=(replace(LORA, scale=0.0),))
    assert is_comparable(off, MODEL)
    assert recipe_of(off) == recipe_of(plain)
    assert latent_key(off.request) == latent_key(plain.request)


def test_strengths_that_are_nearly_equal_are_two():
    nearly = [replace(LORA, scale=scale) for scale in (0.8, 0.8000001)]
    one, two = (latent_key(a_finished_job(loras=(lora,)).request) for lora in nearly)
    assert one != two


def test_a_latent_key_tells_any_two_that_differ_in_a_field():
    own = latent_key(PLAIN)
    others = {replace(own, **{field.name: "another"}) for field in fields(LatentKey)}
    assert len(others | {own}) == len(fields(LatentKey)) + 1


@pytest.mark.parametrize("is_guided", [False, True])
def test_a_recipe_has_another_digest_for_whatever_is_in_the_key_of_recordings(is_guided):
    def digest(request):
        return Recipe.of(request, request.seed, is_guided=is_guided).digest

    own = key_of(Key.RECORDING, PLAIN, is_guided=is_guided)
    differ = {n for n in TRAITS if key_of(Key.RECORDING, other(n), is_guided=is_guided) != own}
    digests = {digest(PLAIN), *(digest(other(name)) for name in differ)}
    ones = NEGATIVES if is_guided else set()
    assert len(digests) == len(differ) + 1 == len(KEYS[Key.RECORDING] | ones) + 1
