"""Calls of a model: seen from outside while they run, errors as values, halves where a batch fails.

Of a failed batch each half is tried again, until the slot at fault is alone.
"""

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from core.errors import EngineError, OutOfMemory
from core.log import get_logger
from core.model import Model
from worker.diffusion.runner import NotReady, Pixels, Prediction, is_out_of_memory
from worker.engine.row_caps import RowCaps
from worker.engine.slot import Pending, Slot
from worker.futures import tried

log = get_logger(__name__)

T = TypeVar("T")

#: What steps are called among activities, and what turns their last latents into pixels.
DENOISING, DECODING = "denoising", "decoding"
#: Weight of the newest call in what decoding usually takes.
_SMOOTHING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activity:
    """One call of a model that has begun."""

    doing: str  #: preparing, denoising or decoding
    model: Model
    shape: Hashable  #: what decides how long it takes, beside the model
    rows: int  #: of the batch
    pixels: int  #: of one image
    jobs: tuple[str, ...]  #: ids of those it is made for
    is_steered: bool  #: it may wait for the ControlNets of other processes

    @property
    def key(self) -> Hashable:
        """What its time is compared by."""
        return (self.doing, self.model.name, self.shape, self.rows)


class Activities:
    """What one thread does, one thing at a time; `now` may be read by any other."""

    def __init__(self, on_done: Callable[[Activity, float], object]) -> None:
        """Prepare; `on_done` hears of every activity that has ended, and its seconds."""
        self.on_done = on_done
        self.now: Activity | None = None
        self.decoding_s: dict[str, float] = {}  #: of an image, by model, smoothed

    @contextmanager
    def during(self, activity: Activity) -> Iterator[None]:
        """Be at something."""
        self.now, began = activity, time.perf_counter()
        try:
            yield
        finally:
            self.now = None
            self.end(activity, time.perf_counter() - began)

    def end(self, activity: Activity, seconds: float) -> None:
        """Say how long all of it took."""
        if activity.doing == DECODING:
            model = activity.model.name
            usual_s = self.decoding_s.get(model, seconds)
            self.decoding_s[model] = usual_s + _SMOOTHING * (seconds - usual_s)
        self.on_done(activity, seconds)


def preparing(pending: Pending) -> Activity:
    """Open one image of a job."""
    return _alone("preparing", pending)


def decoding(slot: Slot) -> Activity:
    """Turn one latent into pixels."""
    return _alone(DECODING, slot)


def denoising(batch: Sequence[Slot]) -> Activity:
    """Take a step of a batch."""
    request = batch[0].request
    return Activity(
        doing=DENOISING,
        model=batch[0].ticket.runner.model,
        shape=batch[0].sample.group,
        rows=sum(slot.rows for slot in batch),
        pixels=request.width * request.height,
        jobs=tuple(dict.fromkeys(slot.ticket.job.id for slot in batch)),
        is_steered=any(slot.ticket.job.request.controls for slot in batch),
    )


def _alone(doing: str, image: Pending | Slot) -> Activity:
    request, ticket = image.request, image.ticket
    return Activity(
        doing=doing,
        model=ticket.runner.model,
        shape=(request.height, request.width, request.task),
        rows=1,
        pixels=request.width * request.height,
        jobs=(ticket.job.id,),
        is_steered=bool(request.controls),
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """A call that failed, without the frames (and the tensors in them) of its traceback."""

    error: Exception  #: free of its traceback
    is_memory: bool  #: an allocation failed

    def engine_error(self, doing: str) -> EngineError:
        """Say to the client what failed."""
        if isinstance(self.error, EngineError):
            return self.error
        if self.is_memory:
            return OutOfMemory(f"{doing}: not enough memory for one image of this size")
        return EngineError(f"{doing}: {type(self.error).__name__}: {self.error}")


def attempt(call: Callable[[], T], doing: str) -> T | Fault:
    """Call, and turn an error into a value.

    Raises: whatever leaves the device unusable, as no later call could succeed.
    """
    result = tried(call)
    if not isinstance(result, Exception):
        return result
    if type(result).__name__ == "AcceleratorError":
        raise result
    is_memory = is_out_of_memory(result)
    if not is_memory and not isinstance(result, EngineError):
        log.error("engine_call_failed", doing=doing, exc_info=result)
    result.__traceback__ = result.__context__ = result.__cause__ = None
    return Fault(result, is_memory)


def decode(slot: Slot) -> Pixels | Fault:
    """Turn one latent into pixels, in a second try with memory given back if there was not enough.

    Shapes: [H, W, 3].
    """
    runner = slot.ticket.runner
    pixels = attempt(lambda: runner.decode(slot.sample), DECODING)
    if isinstance(pixels, Fault) and pixels.is_memory:
        runner.trim()
        pixels = attempt(lambda: runner.decode(slot.sample), DECODING)
    return pixels


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What one forward pass, perhaps in parts, came to."""

    predictions: list[tuple[Slot, Prediction]]  #: in the order of the batch
    faults: list[tuple[Slot, Fault]]  #: slots that fail even alone


def forward(batch: Sequence[Slot], caps: RowCaps) -> Forwarded:
    """Predict for all slots of a batch in one call, or in halves while that fails.

    Shapes: one group; predictions follow the slots.
    """
    runner = batch[0].ticket.runner
    rows = sum(slot.rows for slot in batch)
    result = attempt(lambda: list(runner.forward([slot.sample for slot in batch])), "denoising")
    if not isinstance(result, Fault):
        if caps.lowered:
            caps.grow(batch[0].group, rows)
        return Forwarded(list(zip(batch, result, strict=True)), [])
    if isinstance(result.error, NotReady):
        log.warning("step_not_ready", reason=str(result.error))
        return Forwarded([], [])
    if result.is_memory:
        caps.halve(batch[0].group, rows)
        runner.trim()
        log.warning("batch_out_of_memory", model=runner.model.name, rows=rows)
    if len(batch) == 1:
        return Forwarded([], [(batch[0], result)])
    middle = len(batch) // 2
    first, second = forward(batch[:middle], caps), forward(batch[middle:], caps)
    return Forwarded(first.predictions + second.predictions, first.faults + second.faults)


def advance(predictions: Sequence[tuple[Slot, Prediction]]) -> list[tuple[Slot, Fault]]:
    """Take slots one step further, each by its own prediction; give those that fail even alone."""
    if not predictions:
        return []
    slots, made = zip(*predictions, strict=True)
    samples = [slot.sample for slot in slots]
    result = attempt(lambda: slots[0].ticket.runner.advance(samples, made), "denoising")
    if not isinstance(result, Fault):
        return []
    if len(slots) == 1:
        return [(slots[0], result)]
    middle = len(slots) // 2
    return advance(predictions[:middle]) + advance(predictions[middle:])
