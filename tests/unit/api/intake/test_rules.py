import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.intake.draft import Rules, fill
from api.intake.edits import check_template, editors
from api.intake.schemas import JobCreate
from api.services.requests import parse
from core.errors import FieldError, InvalidRequest, NoPlan
from core.family import FLOW_SAMPLERS, SAMPLERS
from core.job import Task
from core.model import Model
from core.request.prompt_syntax import PromptSyntax
from core.traits import can_make
from tests.unit.api.conftest import CONTROLNETS, MODELS, Words


def a_rules(**changes):
    own = {"controlnets": CONTROLNETS, "max_controls": 3, "ip_adapters": {}}
    return Rules(**own | changes)


RULES = a_rules(models=MODELS, tokens=Words(), max_images=4, max_prompt_chars=2000)


def candidates(create, rules=RULES):
    """The models that can make a request."""
    return rules.draft("t", create).models


maybe = st.none()
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
names = st.sampled_from([*JobCreate.model_fields]) | st.text(max_size=8)
requests = st.builds(
    JobCreate,
    prompt=st.text(min_size=1, max_size=60),
    model=st.sampled_from([None, "small", "large"]),
    width=maybe | st.integers(1, 300),
    height=maybe | st.integers(1, 300),
    steps=maybe | st.integers(1, 120),
    scheduler=st.sampled_from([None, "euler", "lcm"]),
    n=st.integers(1, 6),
    seed=maybe | st.integers(0, 2**63 - 1),
)


@given(requests)
def test_a_model_that_is_offered_can_make_the_request(create):
    try:
        able = candidates(create)
    except InvalidRequest as error:
        assert error.errors
        return
    for model in able:
        [request] = fill(create, [model])
        assert model.min_size <= request.width <= model.max_size
        assert model.min_size <= request.height <= model.max_size
        assert request.width % model.size_multiple == request.height % model.size_multiple == 0
        assert 1 <= request.steps <= model.max_steps
        assert request.n <= RULES.max_images
        assert request.seed + request.n - 1 < 2**63
        assert len(request.prompt.split()) <= model.max_prompt_tokens
        assert create.model in (None, model.name)


FAMILIES = {
    family: Model(name=family, family=family, min_size=48, max_steps=60)
    for family in ("sketch", "sd3", "flux", "sdxl")
}


@given(
    requests,
    st.sampled_from([{}, {"negative_prompt": "blue"}, {"scheduler": "ddim"}])
    | st.just({"task": Task.EDIT, "template": "t", "mask": "m"}),
)
def test_models_are_offered_by_the_limits_that_also_hold_when_a_job_moves(create, more):
    create = create.model_copy(update={"model": None, "n": 1, "seed": 1, "prompt": "a", **more})
    rules = a_rules(models=FAMILIES, tokens=Words(), max_images=4, max_prompt_chars=99)
    able: tuple[Model, ...] = ()
    with contextlib.suppress(InvalidRequest):
        able = candidates(create, rules)
    assert able == tuple(
        model for model in FAMILIES.values() if can_make(model, fill(create, [model])[0])
    )


@given(st.dictionaries(names, values, max_size=6), st.sampled_from([{}, {"prompt": "a circle"}]))
def test_any_json_object_is_either_made_or_refused_naming_fields(fields, good):
    try:
        able = candidates(parse(JobCreate, json.dumps(fields | good).encode()))
    except InvalidRequest as error:
        assert error.errors and all(e.field and e.detail for e in error.errors)
    else:
        assert able


@given(st.binary(max_size=200))
def test_any_bytes_are_either_a_job_or_refused(body):
    with contextlib.suppress(InvalidRequest):
        parse(JobCreate, body)


def test_sizes_that_only_one_model_makes_leave_that_one():
    able = candidates(JobCreate(prompt="a", width=64))
    assert [m.name for m in able] == ["small"]


def test_when_no_model_fits_the_nearest_says_what_is_wrong():
    with pytest.raises(InvalidRequest) as caught:
        candidates(JobCreate(prompt="a", width=192, steps=1000))
    assert [e.field for e in caught.value.errors] == ["steps"]


def with_a_flow(*names):
    models = {name: MODELS[name] for name in names}
    flow = Model(name="flow", family="sd3")
    return a_rules(
        models=models | {"flow": flow}, tokens=Words(), max_images=4, max_prompt_chars=99
    )


def test_a_sampler_of_noise_does_not_fit_a_model_of_flows():
    create = JobCreate(prompt="a", model="flow", scheduler="ddim")
    with pytest.raises(InvalidRequest) as caught:
        candidates(create, with_a_flow())
    expected = FieldError("scheduler", "must be one of euler, heun for flow")
    assert caught.value.errors == (expected,)


def test_a_field_that_is_wrong_for_everybody_is_named_once():
    create = JobCreate(prompt="a\x00b", scheduler="magic", width=65, model="small")
    with pytest.raises(InvalidRequest) as caught:
        candidates(create)
    assert [fault.field for fault in caught.value.errors] == ["prompt", "scheduler", "width"]
    assert caught.value.errors[1].detail == f"must be one of {', '.join(SAMPLERS)}"


def test_a_sampler_chooses_among_the_models_that_have_it():
    rules = with_a_flow("small")

    def able(scheduler):
        return [m.name for m in candidates(JobCreate(prompt="a", scheduler=scheduler), rules)]

    assert able("ddim") == ["small"]
    assert able("heun") == able(None) == ["small", "flow"]


def test_every_sampler_of_flows_is_known_by_name():
    assert FLOW_SAMPLERS.keys() <= SAMPLERS.keys()


def test_a_service_without_models_is_not_the_clients_fault():
    empty = a_rules(models={}, tokens=Words(), max_images=4, max_prompt_chars=10)
    with pytest.raises(NoPlan):
        candidates(JobCreate(prompt="a"), empty)


def test_line_breaks_in_a_prompt_are_fine():
    assert candidates(JobCreate(prompt="a red circle,\n\ta blue square\r\n"))


def test_an_empty_negative_prompt_is_not_the_same_as_none():
    small = MODELS["small"]
    assert fill(JobCreate(prompt="a", negative_prompt=""), [small])[0].negative_prompt == ""
    assert fill(JobCreate(prompt="a"), [small])[0].negative_prompt is None


def test_a_strength_that_leaves_out_nothing_of_noise_is_as_none():
    given, without = JobCreate(prompt="a", seed=1, strength=1.0), JobCreate(prompt="a", seed=1)
    assert given == without
    assert given.model_dump_json() == without.model_dump_json()  # as an Idempotency-Key has it
    assert fill(given, candidates(given)) == fill(without, candidates(without))
    assert JobCreate(prompt="a", image="i", strength=1.0).strength == 1.0
    assert an_edit(strength=1.0).strength == 1.0


def an_edit(**changes):
    return JobCreate(prompt="a", task=Task.EDIT, template="t", mask="m", **changes)


@given(st.integers(1, 100), st.floats(0, 1, exclude_min=True))
def test_an_edit_that_is_offered_runs_a_step_and_a_refusal_says_how_to_get_one(steps, strength):
    try:
        candidates(an_edit(steps=steps, strength=strength))
    except InvalidRequest as error:
        (fault,) = error.errors
        assert int(steps * strength) < 1 and fault.field == "strength"
        candidates(an_edit(steps=steps, strength=float(fault.detail.split()[-1])))
    else:
        assert int(steps * strength) >= 1


def test_an_edit_is_offered_to_models_that_make_edits():
    names = ("sd", "sdxl", "sd3", "flux", "noop", "sketch")
    models = {f: Model(name=f, family=f) for f in names}
    rules = a_rules(models=models, tokens=Words(), max_images=4, max_prompt_chars=99)
    assert [m.name for m in candidates(an_edit(), rules)] == list(names[:-1])
    with pytest.raises(InvalidRequest) as caught:
        candidates(an_edit(model="sketch"), rules)
    assert caught.value.errors == (FieldError("model", "sketch makes no edits"),)


def test_a_negative_prompt_goes_to_models_that_read_it():
    models = {f: Model(name=f, family=f) for f in ("sd3", "flux")}
    rules = a_rules(models=models, tokens=Words(), max_images=4, max_prompt_chars=99)

    def able(**changes):
        return [m.name for m in candidates(JobCreate(prompt="a", **changes), rules)]

    assert able(negative_prompt="b") == ["sd3"]
    assert able(negative_prompt="") == able() == ["sd3", "flux"]
    with pytest.raises(InvalidRequest) as caught:
        able(negative_prompt="b", model="flux")
    expected = FieldError("negative_prompt", "is not read by flux: leave it out")
    assert caught.value.errors == (expected,)


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_template_is_offered_to_models_that_make_its_size(width, height):
    able = editors(MODELS.values(), width, height)
    for model in MODELS.values():
        made = range(model.min_size, model.max_size + 1, model.size_multiple)
        assert (model in able) == (width in made and height in made)
    with contextlib.nullcontext() if able else pytest.raises(InvalidRequest) as caught:
        check_template(MODELS.values(), width, height)
    if not able:
        [fault] = caught.value.errors
        assert f"{width} x {height}" in fault.detail


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"clip_skip": 3}, "clip_skip"),
        ({"prompt_2": "a " * 100}, "prompt_2"),
        ({"prompt_2": "a\x00"}, "prompt_2"),
        ({"prompt_3": "a"}, "prompt_3"),
        ({"crop": (1, 2), "negative_crop": (1, 2)}, "negative_crop"),
    ],
)
def test_what_no_model_reads_is_refused_by_its_field(said, field):
    with pytest.raises(InvalidRequest) as caught:
        candidates(JobCreate(prompt="a", **said))
    assert [fault.field for fault in caught.value.errors] == [field]


def test_what_a_model_reads_is_taken():
    said = {"prompt_2": "b", "clip_skip": 2, "original_size": (9, 9), "crop": (0, 3)}
    assert [m.name for m in candidates(JobCreate(prompt="a", **said))] == ["small", "large"]


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("a " * 90, "fills 9 chunks of 10 tokens; at most 8 are read"),
        ("a AND b", "composes"),
        ("(a:99)", "must be from -10 to 10"),
    ],
)
def test_weighted_prompts_are_refused_for_what_means_nothing_here(prompt, reason):
    for field in ("prompt", "negative_prompt"):
        said = {"prompt": "a", "model": "small", field: prompt}
        with pytest.raises(InvalidRequest, match=reason) as caught:
            candidates(JobCreate(**said, prompt_syntax=PromptSyntax.WEIGHTED))
        assert [fault.field for fault in caught.value.errors] == [field]


def test_weighted_prompts_may_be_longer_than_a_text_encoder_reads():
    prompt = "a " * 40 + "BREAK (b:1.3)"
    assert candidates(JobCreate(prompt=prompt, model="small", prompt_syntax=PromptSyntax.WEIGHTED))
    with pytest.raises(InvalidRequest, match="42 tokens; small reads at most 10; more with"):
        candidates(JobCreate(prompt=prompt, model="small"))


def faults_of(family, **said):
    models = {family: Model(name=family, family=family)}
    rules = a_rules(models=models, tokens=Words(), max_images=4, max_prompt_chars=9999)
    try:
        candidates(JobCreate(**{"prompt": "a"} | said), rules)
    except InvalidRequest as error:
        return {fault.field: fault.detail for fault in error.errors}
    return {}


def test_t5_reads_more_of_a_prompt_than_clip():
    """Each word is a token of CLIP and two of T5 here."""
    for family, own, most in (("flux", "prompt_2", 511), ("sd3", "prompt_3", 255)):
        assert faults_of(family, **{own: "a " * (most // 2)}) == {}
        [(field, detail)] = faults_of(family, **{own: "a " * (most // 2 + 1)}).items()
        assert field == own and f"T5 of {family} reads at most {most}" in detail
        [(field, detail)] = faults_of(family, prompt="a " * 76).items()
        assert field == "prompt" and f"give T5 all of it as {own}, and less here" in detail
    assert faults_of("sd3", negative_prompt="a", negative_prompt_3="a " * 128).keys() == {
        "negative_prompt_3"
    }


def test_a_prompt_that_t5_reads_too_is_as_short_as_it_asks():
    many = Model(name="sd3", family="sd3", max_prompt_tokens=200)
    rules = a_rules(models={"sd3": many}, tokens=Words(), max_images=4, max_prompt_chars=999)
    with pytest.raises(InvalidRequest, match="the T5 of sd3 reads at most 255"):
        candidates(JobCreate(prompt="a " * 130), rules)
    assert candidates(JobCreate(prompt="a " * 130, prompt_3="a"), rules)


def test_a_prompt_for_t5_alone_is_refused_where_there_is_none():
    model = Model(name="small", family="sd3")
    rules = a_rules(models={"small": model}, tokens=Words(), max_images=4, max_prompt_chars=99)
    with pytest.raises(InvalidRequest, match="of which small has no tokenizer"):
        candidates(JobCreate(prompt="a", prompt_3="b"), rules)
    assert candidates(JobCreate(prompt="a", prompt_2="b"), rules)
