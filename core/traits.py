"""Table of what each field of a request decides; limits, uses and keys derive from it. Pure."""

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from operator import attrgetter

import msgspec

from core.codec import encode
from core.errors import FieldError
from core.identity import refusals
from core.identity.steps import STEPS
from core.identity.trait import BY_PROMPT, Key, Trait, Use, whole
from core.identity.words import WORDS
from core.job import JobRequest, Quality, Task
from core.latents import LatentKey
from core.model import Model

#: Whoever reads the table needs its words.
__all__ = (
    "TRAITS",
    "Key",
    "Trait",
    "Use",
    "can_make",
    "faults",
    "image_key",
    "is_as_profiled",
    "key_of",
    "latent_key",
    "may",
)


def _size(name: str) -> Trait:
    return Trait(
        why="a profile, a latent and a recording are of one size",
        bars=frozenset({Use.COMPARE, Use.PACE}),
        keys=whole(name, Key.LATENTS, Key.RECORDING, Key.BATCH),
        refuses=partial(refusals.refuse_size, name),
    )


def _negative_prompt(model: Model, request: JobRequest) -> FieldError | None:
    if not request.negative_prompt or model.reads_negative_prompts:
        return None
    return FieldError("negative_prompt", f"is not read by {model.name}: leave it out")


#: Whatever was recorded, measured or left behind by jobs without a mask is not for an edit.
_NOT_OF_EDITS = BY_PROMPT | {Use.PACE, Use.PREDICT, Use.LATE}

#: Field of `JobRequest` -> what it decides.
TRAITS: Mapping[str, Trait] = {
    "task": Trait(
        why="an edit computes part of an image, what its mask saves is not foreseen; an enlarged "
        "picture has no prompt and no latents",
        bars=_NOT_OF_EDITS,
        is_set=lambda request: request.task is not Task.GENERATE,
        refuses=refusals.refuse_task,
        refuses_default=True,
    ),
    "prompt": Trait(
        why="latents are lent by how near prompts are, scores kept with them; a recording of a "
        "template knows no prompt",
        keys=whole("prompt", Key.PROMPT),
    ),
    "model": Trait(
        why="weights; scores are kept by level, which names the model",
        keys=whole("model", Key.LATENTS, Key.RECORDING),
    ),
    "width": _size("width"),
    "height": _size("height"),
    "steps": Trait(
        why="noise levels depend on how many there are",
        bars=frozenset({Use.COMPARE}),
        keys=whole("steps", Key.LATENTS, Key.RECORDING),
        refuses=refusals.refuse_steps,
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
        keys=whole("seed", Key.RECORDING),
    ),
    "negative_prompt": Trait(
        why="what it keeps out may be in the latents of others, who have not said it",
        bars=BY_PROMPT,
        is_set=lambda request: bool(request.negative_prompt),
        keys=whole("negative_prompt", Key.PROMPT)
        | {
            Key.RECORDING: (
                "negative_prompt",
                lambda r, guided: r.negative_prompt if guided else None,
            )
        },
        refuses=_negative_prompt,
    ),
    **WORDS,
    "n": Trait(
        why="several images that go on from one latent end alike; the first is lent and scored",
        bars=frozenset({Use.BORROW}),
        is_set=lambda request: request.n != 1,
        is_made=False,
    ),
    "edit": Trait(
        why="as its task; what is recorded of a template is named by its bytes, for every mask",
        bars=_NOT_OF_EDITS,
        is_set=lambda request: request.edit is not None,
        keys={Key.RECORDING: ("template", lambda r, _: r.edit and r.edit.template_sha256)},
        refuses=refusals.refuse_strength,
    ),
    "init_image": Trait(
        why="it starts from a picture of its own, wherever that was encoded",
        bars=BY_PROMPT | {Use.LATE},
        is_set=lambda request: request.init_image is not None,
        refuses=refusals.refuse_init_image,
    ),
    "second_pass": Trait(
        why="its image is another, its latents and steps of two sizes",
        bars=BY_PROMPT | {Use.PACE, Use.LATE},
        is_set=lambda request: request.second_pass is not None,
        refuses=refusals.refuse_second_pass,
    ),
    "upscale": Trait(
        why="a picture of its own, enlarged: another network makes it of another size",
        bars=_NOT_OF_EDITS | {Use.MOVE},
        is_set=lambda request: request.upscale is not None,
    ),
    "controls": Trait(
        why="no other job is steered as it is; ControlNets are waited for, and made for one model",
        bars=BY_PROMPT | {Use.PACE, Use.MOVE},
        is_set=lambda request: bool(request.controls),
    ),
    "ip_adapter": Trait(
        why="no other job attends to its picture, a template neither; what attends to one and as "
        "strongly shares its calls",
        bars=BY_PROMPT | {Use.PACE, Use.REUSE},
        is_set=lambda request: request.ip_adapter is not None,
        keys={
            Key.BATCH: ("ip_adapter", lambda r, _: r.ip_adapter and r.ip_adapter.group),
        },
        refuses=refusals.refuse_ip_adapter,
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
        refuses=refusals.refuse_loras,
    ),
    "scheduler": Trait(
        why="noise levels depend on it",
        bars=frozenset({Use.COMPARE}),
        is_set=lambda request: request.scheduler is not None,
        keys=whole("scheduler", Key.LATENTS, Key.RECORDING),
        refuses=refusals.refuse_scheduler,
    ),
    **STEPS,
    "output": Trait(
        why="how an image is written, not what is made; a rough one says less of its level",
        bars=frozenset({Use.COMPARE}),
        is_set=lambda request: request.output.is_rough,
        refuses=refusals.refuse_output,
        is_made=False,
    ),
    "application": Trait(
        why="whose SLO, floor and models apply: the placement reads its record", is_made=False
    ),
    "slo_s": Trait(why="by when, not what", is_made=False),
    "quality": Trait(
        why="an exact image is made in full by its own model; it may serve others",
        bars=frozenset({Use.BORROW, Use.REUSE, Use.LATE, Use.MOVE}),
        is_set=lambda request: request.quality is Quality.EXACT,
    ),
    "priority": Trait(why="whose turn it is, not what is made", is_made=False),
    "webhook": Trait(why="who hears of it, not what is made", is_made=False),
    "metadata": Trait(why="echoed back, never read", is_made=False),
    "filled": Trait(
        why="whoever named a model gets no other",
        bars=frozenset({Use.MOVE}),
        is_set=lambda request: "model" not in request.filled,
        is_made=False,
    ),
}

_BARS = {use: [(name, row) for name, row in TRAITS.items() if use in row.bars] for use in Use}
_KEYS = {key: [row.keys[key] for row in TRAITS.values() if key in row.keys] for key in Key}
_MADE = [name for name, row in TRAITS.items() if row.is_made]
_REFUSALS = {name: row.refuses for name, row in TRAITS.items() if row.refuses is not None}
#: Fields that some model refuses, as requests have them that do not say otherwise.
_PLAIN = {
    each.name: each.default
    for each in fields(JobRequest)
    if each.name in _REFUSALS and each.default is not MISSING
}
_ALWAYS = [
    refuses
    for name, refuses in _REFUSALS.items()
    if name not in _PLAIN or TRAITS[name].refuses_default
]
_read_plain, _AS_PLAIN = attrgetter(*_PLAIN), tuple(_PLAIN.values())


def may(use: Use, request: JobRequest) -> bool:
    """Tell whether no field that a request sets stands in the way of a use."""
    return not any(row.is_set(request) for _, row in _BARS[use] if row.is_set is not None)


def is_as_profiled(use: Use, request: JobRequest, model: Model) -> bool:
    """Tell likewise of a use that takes a job for one that was profiled, on the same model."""
    own: Mapping[str, object] = {**model.defaults()}
    same = (getattr(request, name) == own[name] for name, row in _BARS[use] if row.is_set is None)
    return all(same) and may(use, request)


def faults(model: Model, request: JobRequest) -> list[FieldError]:
    """Say why a model cannot make a request, which was filled in for it; nothing if it can.

    Every model is asked about every plain request: few of its fields are looked at.
    """
    asked = _ALWAYS if _read_plain(request) == _AS_PLAIN else _REFUSALS.values()
    return [fault for refuses in asked if (fault := refuses(model, request)) is not None]


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


def image_key(request: JobRequest) -> bytes:
    """Say what another request must have asked for too, to go on where an image of this stood."""
    return encode([getattr(request, name) for name in _MADE])
