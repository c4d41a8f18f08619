"""Words for what one field of a request decides: uses, keys, and why a model refuses it. Pure."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from core.errors import FieldError
from core.job import JobRequest
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


#: Uses that know a job by its prompt alone: whatever else is in its latents stands in their way.
BY_PROMPT = frozenset({Use.BORROW, Use.LEND, Use.COMPARE})


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
    refuses_default: bool = False  #: whether some model refuses what a request has by itself
    is_made: bool = True  #: whether it decides what an image is on its way, to the last bit


def whole(name: str, *keys: Key) -> dict[Key, tuple[str, Read]]:
    """Take a field into keys as it is."""
    return {key: (name, lambda request, _: getattr(request, name)) for key in keys}
