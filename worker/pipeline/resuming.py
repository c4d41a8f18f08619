"""Say where an image of a pipeline stands, and have one that was just opened stand there.

The rest of the image is the same then: whatever else its steps depend on follows from its request,
as at the first opening, or the image begins anew. An edit that reuses its template corrects that by
what it learnt at its last step in full, which is too much to keep: that step is taken again for
what it teaches, and the image goes on from where it stood.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from core.errors import EngineError
from worker.diffusion.device import to_host, told
from worker.diffusion.samplers.saving import GENERATOR, SavedSampler, restore, save
from worker.pipeline.sample import UNetSample

#: Name of the latents and what is kept with them, and of those before the last step in full.
ROW, LEARNT = "row", "learnt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSample:
    """Where an image stands, beside its tensors."""

    sampler: SavedSampler
    has_loras: bool  #: whether its LoRAs act by now
    reuse: str = ""  #: what an edit takes from its template; empty: nothing
    #: call of the model that taught the edit by how much to correct it
    learnt_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """One state as it is written down."""

    standing: SavedSample
    tensors: bytes  #: of safetensors


#: Made here: threads that make one of the same type at once end the process (`core/codec`).
_decoder = msgspec.msgpack.Decoder(_Written)


@torch.inference_mode()
def state_of(sample: UNetSample) -> Callable[[], bytes] | None:
    """Copy where an image stands; nothing waits for the device. What is returned writes it down.

    That may be called by another thread. None: nobody could go on from this very step.
    """
    if not _is_whole(sample):
        return None
    saved, tensors = save(sample.sampler)
    tensors[ROW] = to_host(sample.row.whole)
    standing = SavedSample(sampler=saved, has_loras=bool(sample.mix.key))
    if sample.reuse is not None and sample.reuse.feed is not None:
        at, row = sample.learnt or (sample.reuse.begin, None)
        is_next_in_full = saved.position in sample.reuse.full or not sample.reuse.full
        if not is_next_in_full and row is not None:
            tensors[LEARNT] = to_host(row)
        standing = replace(
            standing, reuse=sample.reuse.signature, learnt_at=None if is_next_in_full else at
        )
    return partial(_write, standing, tensors, told(sample.row.pool.state.device))


def _write(standing: SavedSample, tensors: Mapping[str, Tensor], wait: Callable[[], None]) -> bytes:
    wait()
    data = safetensors.torch.save({name: each.contiguous() for name, each in tensors.items()})
    return msgspec.msgpack.encode(_Written(standing=standing, tensors=data))


def _is_whole(sample: UNetSample) -> bool:
    """Tell whether all that its next steps depend on can be had again.

    Not what ControlNets said at an earlier step, nor a recording that is half made.
    """
    is_edit = sample.reuse is not None and sample.reuse.feed is not None
    if sample.image_rows == 0 or sample.jump is not None:
        return False
    if is_edit and sample.sampler.stepper is None:
        return False
    nets = [steered for steered in sample.controls if not steered.is_adapter]
    return not any(each.is_stale or sample.sampler.position in each.held for each in nets)


@torch.inference_mode()
def resume(sample: UNetSample, data: bytes) -> int:
    """Have an image that was just opened stand where another like it stood.

    Returns how many steps of those that were taken are taken again.
    Raises: EngineError if it cannot; the image is of no use then.
    """
    standing, tensors = _read(data)
    _check_row(ROW, tensors, sample)
    reuse = sample.reuse if sample.reuse is not None and sample.reuse.feed is not None else None
    if standing.reuse != (reuse.signature if reuse is not None else ""):
        raise EngineError("this edit would take something else from its template here")
    if standing.has_loras and not sample.mix.key:
        if sample.awaited is None:
            raise EngineError("the state is of an image with LoRAs")
        sample.awaited = replace(sample.awaited, bound=0)
    if sample.is_recording:
        sample.stop_recording()
    if standing.learnt_at is None:
        _stand(sample, standing, tensors)
        return 0
    _check_generator(tensors)
    if LEARNT in tensors:
        _check_row(LEARNT, tensors, sample)
        sample.row.put_whole(tensors[LEARNT])
    if not sample.sampler.position <= standing.learnt_at < standing.sampler.position:
        raise EngineError("the state of this edit contradicts itself")
    sample.sampler.stand_at(standing.learnt_at)
    sample.jump = partial(_stand, sample, standing, tensors)
    return 1


@torch.inference_mode()
def _stand(sample: UNetSample, standing: SavedSample, tensors: Mapping[str, Tensor]) -> None:
    restore(sample.sampler, standing.sampler, tensors, sample.row.pool.state.device)
    sample.row.put_whole(tensors[ROW])


def _read(data: bytes) -> tuple[SavedSample, dict[str, Tensor]]:
    try:
        written = _decoder.decode(data)
        return written.standing, safetensors.torch.load(written.tensors)
    except (
        msgspec.DecodeError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError
    ) as error:  # fmt: skip
        raise EngineError(f"the state of an image is damaged: {error}") from error


def _check_row(name: str, tensors: Mapping[str, Tensor], sample: UNetSample) -> None:
    own, row = sample.row.whole, tensors.get(name)
    if row is None or row.shape != own.shape or row.dtype != own.dtype:
        raise EngineError(f"the state has no {name} of {tuple(own.shape)}")
    if not row.isfinite().all():
        raise EngineError(f"the {name} of the state is not finite")


def _check_generator(tensors: Mapping[str, Tensor]) -> None:
    try:
        torch.Generator().set_state(tensors[GENERATOR])
    except (KeyError, RuntimeError, TypeError) as error:
        raise EngineError(f"the state of its generator is damaged: {error}") from error
