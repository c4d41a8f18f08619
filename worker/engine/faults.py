"""Errors of a model's calls as values; a step that failed is taken by halves of its batch.

Each half is tried again, until the slot at fault is alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.errors import EngineError, OutOfMemory
from core.log import get_logger
from worker.diffusion.runner import NotReady, Prediction, breaks_device, is_out_of_memory
from worker.engine.row_caps import RowCaps
from worker.engine.slot import Slot
from worker.engine.stats import DENOISING
from worker.futures import tried

log = get_logger(__name__)

T = TypeVar("T")

#: Slots, and what was predicted for each of them.
Predicted = Sequence[tuple[Slot, Prediction]]
Faults = list[tuple[Slot, "Fault"]]


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
    return _fault_of(result, doing) if isinstance(result, Exception) else result


def _fault_of(result: Exception, doing: str) -> Fault:
    if breaks_device(result):
        raise result
    is_memory = is_out_of_memory(result)
    if not is_memory and not isinstance(result, EngineError):
        log.error("engine_call_failed", doing=doing, exc_info=result)
    result.__traceback__ = result.__context__ = result.__cause__ = None
    return Fault(result, is_memory)


def step_in_halves(batch: Sequence[Slot], fault: Fault, caps: RowCaps) -> Faults:
    """Take a step with a batch for which one forward pass failed; give the slots that could not."""
    predicted, faults = _predicted_in_halves(batch, fault, caps)
    return faults + _advance(predicted)


def _predicted_in_halves(
    batch: Sequence[Slot], fault: Fault, caps: RowCaps
) -> tuple[list[tuple[Slot, Prediction]], Faults]:
    if fault.is_memory:
        runner, rows = batch[0].ticket.runner, sum(slot.rows for slot in batch)
        caps.halve(batch[0].group, rows)
        runner.trim()
        log.warning("batch_out_of_memory", model=runner.model.name, rows=rows)
        if len(batch) == 1:  # what was given back may be enough
            return _predict(batch, caps, is_last=True)
    if len(batch) == 1 or isinstance(fault.error, NotReady):
        return [], _final(batch[0], fault)
    middle = len(batch) // 2
    predicted, faults = _predict(batch[:middle], caps)
    others, other_faults = _predict(batch[middle:], caps)
    return predicted + others, faults + other_faults


def _predict(
    batch: Sequence[Slot], caps: RowCaps, *, is_last: bool = False
) -> tuple[list[tuple[Slot, Prediction]], Faults]:
    runner = batch[0].ticket.runner
    result = attempt(lambda: list(runner.forward([slot.sample for slot in batch])), DENOISING)
    if isinstance(result, Fault):
        if is_last:
            return [], _final(batch[0], result)
        return _predicted_in_halves(batch, result, caps)
    caps.grow(batch[0].group, sum(slot.rows for slot in batch))
    return list(zip(batch, result, strict=True)), []


def _final(slot: Slot, fault: Fault) -> Faults:
    """Give the fault of a slot that is alone with it; what is not ready is tried again later."""
    if isinstance(fault.error, NotReady):
        log.warning("step_not_ready", reason=str(fault.error))
        return []
    return [(slot, fault)]


def _advance(predicted: Predicted) -> Faults:
    if not predicted:
        return []
    slots, made = zip(*predicted, strict=True)
    samples = [slot.sample for slot in slots]
    result = attempt(lambda: slots[0].ticket.runner.advance(samples, made), DENOISING)
    if isinstance(result, Fault):
        return advance_in_halves(predicted, result)
    for slot in slots:
        slot.note_step()
    return []


def advance_in_halves(predicted: Predicted, fault: Fault) -> Faults:
    """Take slots a step further which one call failed to; give those that it fails for alone."""
    if len(predicted) == 1:
        return [(slot, fault) for slot, _ in predicted]
    middle = len(predicted) // 2
    return _advance(predicted[:middle]) + _advance(predicted[middle:])
