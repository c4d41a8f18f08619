"""Table of what each field of a request decides; limits, uses and keys derive from it. Pure."""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from core.errors import FieldError
from core.job import JobRequest, Quality, Task
from core.latents import LatentKey
from core.model import Model


class Use(StrEnum):
    """What is done with a job, unless a field that it sets stands in the way."""

    BORROW = "borrow"  #: it goes on from the latents of another prompt
    LEND = "lend"  #: it leaves latents that others go on from
    COMPARE = "compare"  #: its image is scored, and says how good its level is
    PACE = "pace"  #: its steps say how fast the device is
    PREDICT = "predict"  #: its end is predicted, and refused where it would miss the deadline
    REUSE = "reuse"  #: an edit takes from recordings of its template, and makes them
    LATE = "late"  #: it begins before its LoRAs are there, and takes residuals a step late
    MOVE = "move"  #: another model makes it where its own is served no more


class Key(StrEnum):
    """What jobs share if they are equal in all that it takes of them."""

    LATENTS = "latents"  #: `LatentKey`: latents to go on from
    RECORDING = "recording"  #: `core.recipe.Recipe`: activations of a template
    PROMPT = "prompt"  #: encodings of a prompt, beside the LoRAs of its encoders
    BATCH = "batch"  #: forward passes, beside the model and how long its text is


#: Reads a value of a key, given whether a negative prompt is weighed against the prompt.
Read = Callable[[JobRequest, bool], Hashable]
#: Says why a model cannot make what a request asks for, by the field as a client sends it.
Refuse = Callable[[Model, JobRequest], FieldError | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """One field of a request and what it decides."""

    why: str  #: it decides this, or nothing
    bars: frozenset[Use] = frozenset()  #: what is not done with a job that sets it
    #: Tells whether a job sets it; None: it does where it is not as the model has it by itself.
    is_set: Callable[[JobRequest], bool] | None = None
    keys: Mapping[Key, tuple[str, Read]] = field(default_factory=dict)  #: name in each, and value
    refuses: Refuse | None = None  #: None: any model can make what it asks for


def _whole(name: str, *keys: Key) -> dict[Key, tuple[str, Read]]:
    """Take a field into keys as it is."""
    return {key: (name, lambda request, _: getattr(request, name)) for key in keys}


def _size(name: str) -> Trait:
    def refuse(model: Model, request: JobRequest) -> FieldError | None:
        if model.makes(getattr(request, name)):
            return None
        made = f"a multiple of {model.size_multiple} from {model.min_size} to {model.max_size}"
        return FieldError(name, f"must be {made} for {model.name}")

    return Trait(
        why="a profile, a latent and a recording are of one size",
        bars=frozenset({Use.COMPARE, Use.PACE}),
        keys=_whole(name, Key.LATENTS, Key.RECORDING, Key.BATCH),
        refuses=refuse,
    )


def _task(model: Model, request: JobRequest) -> FieldError | None:
    is_edit = request.task is Task.EDIT or request.edit is not None
    if not is_edit or model.can_edit:
        return None
    return FieldError("model", f"{model.name} makes no edits")


def _steps(model: Model, request: JobRequest) -> FieldError | None:
    limit = model.max_steps_with(request.scheduler)
    if request.steps <= limit:
        return None
    reason = f"{model.name} with {request.scheduler}" if request.scheduler else model.name
    return FieldError("steps", f"must be from 1 to {limit} for {reason}")


def _strength(_: Model, request: JobRequest) -> FieldError | None:
    steps = request.steps
    if request.edit is None or int(steps * request.edit.strength) >= 1:
        return None
    least = math.ceil(1000 / steps) / 1000
    return FieldError("strength", f"leaves none of {steps} steps; must be at least {least:g}")


def _loras(model: Model, request: JobRequest) -> FieldError | None:
    for at, use in enumerate(request.loras):
        if model.name not in use.models:
            fault = f"fits {', '.join(use.models)}, and the request leaves {model.name}"
            return FieldError(f"loras.{at}.id", fault)
    return None


def _negative_prompt(model: Model, request: JobRequest) -> FieldError | None:
    if not request.negative_prompt or model.reads_negative_prompts:
        return None
    return FieldError("negative_prompt", f"is not read by {model.name}: leave it out")


def _scheduler(model: Model, request: JobRequest) -> FieldError | None:
    if request.scheduler is None or request.scheduler in model.samplers:
        return None
    return FieldError("scheduler", f"must be one of {', '.join(model.samplers)} for {model.name}")


#: Whatever was recorded, measured or left behind by jobs without a mask is not for an edit.
_NOT_OF_EDITS = frozenset({Use.BORROW, Use.LEND, Use.COMPARE, Use.PACE, Use.PREDICT, Use.LATE})

#: Field of `JobRequest` -> what it decides.
TRAITS: Mapping[str, Trait] = {
    "task": Trait(
        why="an edit computes part of an image; what its mask saves is not foreseen",
        bars=_NOT_OF_EDITS,
        is_set=lambda request: request.task is Task.EDIT,
        refuses=_task,
    ),
    "prompt": Trait(
        why="latents are lent by how near prompts are, scores kept with them; a recording of a "
        "template knows no prompt",
        keys=_whole("prompt", Key.PROMPT),
    ),
    "model": Trait(
        why="weights; scores are kept by level, which names the model",
        keys=_whole("model", Key.LATENTS, Key.RECORDING),
    ),
    "width": _size("width"),
    "height": _size("height"),
    "steps": Trait(
        why="noise levels depend on how many there are",
        bars=frozenset({Use.COMPARE}),
        keys=_whole("steps", Key.LATENTS, Key.RECORDING),
        refuses=_steps,
    ),
    "guidance": Trait(
        why="latents carry that a prompt was weighed, not how much; a template is drawn with the "
        "scale where that is an input",
        bars=frozenset({Use.COMPARE}),
        keys={
            Key.LATENTS: ("is_guided", lambda request, _: request.guidance > 1),
            Key.RECORDING: ("guidance", lambda r, guided: None if guided else r.guidance),
            Key.PROMPT: ("is_guided", lambda _, guided: guided),
        },
    ),
    "seed": Trait(
        why="noise of an edit and its template; latents are for any noise",
        keys=_whole("seed", Key.RECORDING),
    ),
    "negative_prompt": Trait(
        why="what it keeps out may be in the latents of others, who have not said it",
        bars=frozenset({Use.BORROW, Use.LEND, Use.COMPARE}),
        is_set=lambda request: bool(request.negative_prompt),
        keys=_whole("negative_prompt", Key.PROMPT)
        | {
            Key.RECORDING: (
                "negative_prompt",
                lambda r, guided: r.negative_prompt if guided else None,
            )
        },
        refuses=_negative_prompt,
    ),
    "n": Trait(
        why="several images that go on from one latent end alike; the first is lent and scored",
        bars=frozenset({Use.BORROW}),
        is_set=lambda request: request.n != 1,
    ),
    "edit": Trait(
        why="as its task; what is recorded of a template is named by its bytes, for every mask",
        bars=_NOT_OF_EDITS,
        is_set=lambda request: request.edit is not None,
        keys={Key.RECORDING: ("template", lambda r, _: r.edit and r.edit.template_sha256)},
        refuses=_strength,
    ),
    "controls": Trait(
        why="no other job is steered as it is; ControlNets are waited for, and made for one model",
        bars=frozenset({Use.BORROW, Use.LEND, Use.COMPARE, Use.PACE, Use.MOVE}),
        is_set=lambda request: bool(request.controls),
    ),
    "loras": Trait(
        why="they change the weights, as far as they act at all; encoders that they change read "
        "prompts by a key of their own",
        bars=frozenset({Use.COMPARE}),
        is_set=lambda request: bool(request.adapters),
        keys={
            Key.LATENTS: (
                "adapters",
                lambda request, _: tuple(f"{x}@{scale!r}" for x, scale in request.adapters),
            ),
            Key.RECORDING: ("adapters", lambda request, _: request.adapters),
        },
        refuses=_loras,
    ),
    "scheduler": Trait(
        why="noise levels depend on it",
        bars=frozenset({Use.COMPARE}),
        is_set=lambda request: request.scheduler is not None,
        keys=_whole("scheduler", Key.LATENTS, Key.RECORDING),
        refuses=_scheduler,
    ),
    "application": Trait(why="whose SLO, floor and models apply: the placement reads its record"),
    "slo_s": Trait(why="by when, not what"),
    "quality": Trait(
        why="an exact image is made in full by its own model; it may serve others",
        bars=frozenset({Use.BORROW, Use.REUSE, Use.LATE, Use.MOVE}),
        is_set=lambda request: request.quality is Quality.EXACT,
    ),
    "priority": Trait(why="whose turn it is, not what is made"),
    "webhook": Trait(why="who hears of it, not what is made"),
    "metadata": Trait(why="echoed back, never read"),
    "filled": Trait(
        why="whoever named a model gets no other",
        bars=frozenset({Use.MOVE}),
        is_set=lambda request: "model" not in request.filled,
    ),
}

_BARS = {use: [(name, row) for name, row in TRAITS.items() if use in row.bars] for use in Use}
_KEYS = {key: [row.keys[key] for row in TRAITS.values() if key in row.keys] for key in Key}
_REFUSALS = [row.refuses for row in TRAITS.values() if row.refuses is not None]


def may(use: Use, request: JobRequest) -> bool:
    """Tell whether no field that a request sets stands in the way of a use."""
    return not any(row.is_set(request) for _, row in _BARS[use] if row.is_set is not None)


def is_as_profiled(use: Use, request: JobRequest, model: Model) -> bool:
    """Tell likewise of a use that takes a job for one that was profiled, on the same model."""
    own: Mapping[str, object] = {**model.defaults()}
    same = (getattr(request, name) == own[name] for name, row in _BARS[use] if row.is_set is None)
    return all(same) and may(use, request)


def faults(model: Model, request: JobRequest) -> list[FieldError]:
    """Say why a model cannot make a request, which was filled in for it; nothing if it can."""
    return [fault for refuses in _REFUSALS if (fault := refuses(model, request)) is not None]


def can_make(model: Model, request: JobRequest) -> bool:
    """Tell whether a request keeps to the limits of a model, once that has filled it in."""
    return not faults(model, request.on(model))


def key_of(key: Key, request: JobRequest, *, is_guided: bool) -> dict[str, Hashable]:
    """Give what a key takes of a request, by name.

    `is_guided`: its model weighs a negative prompt against the prompt.
    """
    return {name: read(request, is_guided) for name, read in _KEYS[key]}


def latent_key(request: JobRequest) -> LatentKey:
    """Say what another job must have asked for too, to go on from this one's latents."""
    return msgspec.convert(key_of(Key.LATENTS, request, is_guided=True), LatentKey)
