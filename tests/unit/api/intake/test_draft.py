"""No field of a request is forgotten on its way from the body to the record and to the view."""

from dataclasses import fields, replace

import pytest

from api.intake.draft import MADE, Draft, fill
from api.intake.schemas import JobCreate
from api.views.responses import JobView
from core.errors import InvalidRequest
from core.family import Spacing
from core.job import Edit, JobRequest, Priority, Quality, Task
from core.request.output import OutputFormat
from core.request.prompt_syntax import PromptSyntax
from core.uploads.lora import AppliedLora
from tests.unit.api.conftest import MODELS

ASKED = {field.name for field in fields(JobRequest)}
SENT, SHOWN = set(JobCreate.model_fields), set(JobView.model_fields)

#: What a client sends that is no field of a request, and where it goes.
ELSEWHERE = {"template": "edit", "mask": "edit", "strength": "edit", "deadline_s": "the job"}
ELSEWHERE |= {"image": "init_image"} | {"output_format": "output", "output_quality": "output"}
#: Fields of a request that no client sends, and that no client is shown.
NOT_SENT = {"edit", "init_image", "upscale", "output", "slo_s", "filled"}
NOT_SHOWN = {"edit": "template, mask and strength are", "webhook": "", "filled": ""}
NOT_SHOWN |= {"init_image": "picture and strength are", "upscale": "its picture is"}
NOT_SHOWN |= {"output": "format and quality are"}

CREATE = JobCreate(
    task=Task.EDIT,
    prompt="a",
    negative_prompt="b",
    prompt_2="c",
    prompt_3="d",
    negative_prompt_2="e",
    negative_prompt_3="f",
    prompt_syntax=PromptSyntax.WEIGHTED,
    clip_skip=1,
    original_size=(64, 32),
    crop=(1, 2),
    target_size=(32, 64),
    negative_original_size=(16, 8),
    negative_crop=(3, 4),
    negative_target_size=(8, 16),
    n=2,
    scheduler="ddim",
    sigma_spacing=Spacing.BETA,
    sigmas=[9.0, 3.0, 0.0],
    eta=0.5,
    guidance_rescale=0.7,
    application="a",
    quality=Quality.EXACT,
    output_format=OutputFormat.AVIF,
    second_pass={"scale": 2.0},
    priority=Priority.BATCH,
    webhook={"url": "https://e.org"},
    metadata={"a": "b"},
)
BARE = JobRequest(prompt="c", model="m", width=1, height=1, steps=1, guidance=1, seed=0)
LORA = AppliedLora(id="i", key="k", models=("large",), size_bytes=1, sha256="ab")


def test_whatever_is_sent_is_a_field_of_the_request_or_goes_elsewhere():
    assert set(ELSEWHERE) == SENT - ASKED
    assert ASKED - SENT == NOT_SENT


def test_whatever_is_asked_for_is_shown_or_kept_back_on_purpose():
    assert set(NOT_SHOWN) == ASKED - SHOWN


def test_fill_leaves_no_field_at_its_default_but_what_a_later_stage_finds():
    [filled] = fill(CREATE, [MODELS["small"]], slo_s=1.0)
    same = {name for name in ASKED if getattr(filled, name) == getattr(BARE, name)}
    assert same == {"controls", "init_image", "upscale", "loras", "embeddings", "ip_adapter"} < MADE


def a_draft(create=CREATE):
    [request] = fill(create, [MODELS["small"]])
    offers = tuple((model, request.on(model)) for model in MODELS.values())
    return Draft(id="j", tenant="t", create=create, offers=offers)


def test_what_is_left_open_is_as_each_model_does_it():
    (_, small), (_, large) = a_draft(JobCreate(prompt="a", height=128)).offers
    assert (small.model, small.width, large.model, large.width) == ("small", 64, "large", 128)
    assert small.height == large.height == 128
    assert small.seed == large.seed


def test_more_of_a_request_leaves_the_models_that_still_make_it():
    unheeded = {"second_pass", "prompt_3", "negative_prompt_3", "sigmas", "sigma_spacing"}
    create = CREATE.model_copy(update=dict.fromkeys(unheeded))
    draft = a_draft(create).keep(tuple(MODELS.values()), loras=(LORA,))
    assert [model.name for model in draft.models] == ["large"]
    assert draft.request.loras == (LORA,)
    with pytest.raises(InvalidRequest) as caught:
        draft.keep(draft.models, loras=(LORA, replace(LORA, models=("small",))))
    assert [fault.field for fault in caught.value.errors] == ["loras.1.id"]


def test_an_edit_knows_its_strength_before_its_images_are_read():
    create = CREATE.model_copy(update={"strength": 0.5})
    assert a_draft(create).request.edit == Edit(
        template="", template_sha256="", mask="", strength=0.5
    )


def test_listed_noise_levels_say_how_many_steps_there_are():
    create = JobCreate(prompt="a", sigmas=[9.0, 3.0, 0.0])
    flow = replace(MODELS["small"], family="sd3")
    requests = fill(create, [MODELS["small"], flow])
    assert [request.steps for request in requests] == [2, 3]
    assert all("steps" not in request.filled for request in requests)
    assert requests[0].on(MODELS["large"]).steps == 2
    [told] = fill(create.model_copy(update={"steps": 7}), [flow])
    assert told.steps == 7
