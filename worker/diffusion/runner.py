"""Interface between engine and model: protocols `Runner` and `Sample`."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.errors import EngineError
from core.job import JobRequest
from core.levels.approximation import EXACT, Approximation
from core.model import Model

#: What rows of one forward pass must share.
Group = tuple[Hashable, ...]

#: One finished image, [H, W, 3].
Pixels = NDArray[np.uint8]


class NotReady(EngineError):
    """What a step needs from another process has gone, or is late: it is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EditInputs:
    """The images that an edit brings along, checked and decoded."""

    template: Pixels
    mask: NDArray[np.uint8]  #: 255 is made anew, 0 is kept, [H, W]
    strength: float  #: share of the schedule that is run
    conditions: tuple[Pixels, ...] = ()  #: that its ControlNets keep to, of the size of the job


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InitInputs:
    """The picture that an image starts from, checked, decoded and scaled to the job's size."""

    image: Pixels
    strength: float  #: share of the schedule that is run
    conditions: tuple[Pixels, ...] = ()  #: as of an edit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Borrowed:
    """Where another job's image stood, for this one to go on from."""

    skipped_steps: int  #: K of 50
    data: bytes  #: as `Kept.write` wrote it, perhaps damaged since


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlImages:
    """The pictures that a job's ControlNets keep to, one for each, decoded."""

    images: tuple[Pixels, ...]  #: of the size of the job


#: Vectors of a learned word, for each text encoder. Shapes: each [V, D].
LearnedVectors = tuple[NDArray[np.float32], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordInputs:
    """What a job's prompts name or show, beside whatever else it brings along."""

    vectors: Mapping[str, LearnedVectors]  #: of its embeddings, by their ids
    shown: Pixels | None = None  #: by its IP-Adapter
    rest: "EditInputs | InitInputs | Borrowed | ControlImages | None" = None


#: What a job may bring along.
JobInputs = EditInputs | InitInputs | Borrowed | ControlImages | WordInputs


def brings_conditions(brought: JobInputs | None) -> bool:
    """Tell what may be opened by a VAE, as ControlNets of some families read their pictures."""
    rest = brought.rest if isinstance(brought, WordInputs) else brought
    return isinstance(rest, ControlImages)


def conditions_of(brought: JobInputs | None) -> tuple[Pixels, ...]:
    """Give the pictures that a job's ControlNets keep to, whatever else it brings along."""
    if isinstance(brought, EditInputs | InitInputs):
        return brought.conditions
    return brought.images if isinstance(brought, ControlImages) else ()


def brings_pictures(brought: JobInputs | None) -> bool:
    """Tell what is opened by the parts of a model that decode from what is not."""
    rest = brought.rest if isinstance(brought, WordInputs) else brought
    return isinstance(rest, EditInputs | InitInputs)


class KeptLatent(Protocol):
    """An image on its way, as it stood after some step."""

    def write(self) -> bytes:
        """Write it down. Call this once the image has been decoded: its copies are whole then."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Sample:
    """One image being made, as its runner sees it. Families add what they need."""

    group: Group  #: latent shape and text length
    rows: int  #: of a forward pass; guidance takes two
    num_steps: int  #: calls of `advance` until it is done; none if it is
    taken: int = 0  #: of these, before it was opened here
    reached: Approximation = EXACT  #: what is really left out of it
    masked: float = 1.0  #: share of the image that most of its steps compute
    left: Mapping[int, KeptLatent] = field(
        default_factory=dict
    )  #: by K of 50, for others to begin at

    def waits_for(self) -> str | None:
        """Say what it cannot take its next step without, if another process has yet to give it.

        Raises: EngineError if there is no hope of it.
        """
        return None

    def let_down(self, reason: str) -> EngineError:
        """Say in an error's words that what it waits for has not come in time."""
        return EngineError(reason)

    def close(self) -> None:
        """Let go of what it holds outside of this process: it takes no further step."""


S = TypeVar("S", bound=Sample)


#: What a runner's forward pass gives each sample; only the runner itself reads it.
Prediction = Any


class Runner(Protocol[S]):
    """One resident model. Called by the engine thread only, unless a method says otherwise."""

    @property
    def model(self) -> Model: ...

    @property
    def decodes_freely(self) -> bool:
        """Say whether `decode` may compute beside calls that bring no pictures, on another core."""
        ...

    def open(self, request: JobRequest, seed: int, brought: JobInputs | None = None) -> S:
        """Encode the prompt, and the template of an edit, and draw the noise of one image.

        What is borrowed and cannot be used is left alone: the image starts from noise.
        """
        ...

    def encoding(self, request: JobRequest) -> Callable[[], object] | None:
        """Give what encodes a prompt, so that images of it are opened without; None: nothing does.

        Both may be called by another thread, while steps are taken.
        """
        ...

    def approximate(self, sample: S, approximation: Approximation) -> None:
        """Leave out of an opened image what its level does; `reached` says what came of it.

        Not called where that takes latents, which are brought along, or where nothing is left out.
        """
        ...

    def forward(self, samples: Sequence[S]) -> Sequence[Prediction]:
        """Predict the noise of all samples in one call, each at its own timestep.

        Samples are not changed, so that a failed call can be tried again in parts.
        """
        ...

    def advance(self, samples: Sequence[S], predictions: Sequence[Prediction]) -> None:
        """Take samples one step further, each by its own prediction.

        A failed call has changed none of them, so that it can be tried again in parts.
        """
        ...

    def preview(self, sample: S, request: JobRequest) -> Callable[[], Pixels] | None:
        """Look at an image on its way, after a step; give what paints a small picture of it.

        That may be called by another thread. None: it is to be looked at after another step, or
        this model shows nothing. `request`: of this pass.
        """
        ...

    def state_of(self, sample: S) -> Callable[[], bytes] | None:
        """Copy where an image stands, after a step; give what writes it down.

        That may be called by another thread. None: nobody could go on from this step, or, in this
        family, from any.
        """
        ...

    def resume(self, sample: S, payload: bytes) -> int:
        """Have an image that was just opened stand where another like it stood.

        Returns how many steps of those that were taken are taken again.
        Raises: EngineError if it cannot; the image is of no use then.
        """
        ...

    def decode(self, sample: S) -> Pixels:
        """Turn the final latent into pixels.

        Raises: EngineError if the latent or the image is not finite.
        """
        ...

    def trim(self) -> None:
        """Give cached device memory back after a failed allocation."""
        ...

    def close(self) -> None:
        """Let go of the weights."""
        ...


AnyRunner = Runner[Any]

#: How allocators on host and device say that memory has run out.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


class AdapterLoad(partial[object]):
    """Loads an IP-Adapter, and perhaps encodes a prompt: it may take longer than any prompt."""


def breaks_device(error: BaseException) -> bool:
    """Tell an error after which no later call of this process on its device could succeed."""
    return type(error).__name__ == "AcceleratorError"


def is_out_of_memory(error: BaseException) -> bool:
    """Tell a failed allocation, whichever library says so, from any other error."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _OUT_OF_MEMORY)
