"""Snapshot of an image at some step, from which another image can resume.

Snapshots are taken at some steps for other images to start from (Argus §2.1, approximate caching),
in one safetensors file each, in the precision of the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from core.errors import EngineError
from core.levels.approximation import EXACT, Approximation, skipping, whole_skips
from core.levels.schedule import scaled
from core.log import get_logger
from worker.diffusion.device import to_device, to_host
from worker.diffusion.latent_pool import PoolRow
from worker.diffusion.runner import Borrowed
from worker.diffusion.samplers.sampler import Sampler

log = get_logger(__name__)

#: Name of the latents among what a sampler remembers.
LATENTS = "latents"
#: Entry of the metadata: fingerprint of the weights that an image was made with.
_WEIGHTS = "weights"


class _Header(msgspec.Struct, frozen=True):
    """Of a file's header, what is not about tensors."""

    metadata: dict[str, str] = msgspec.field(name="__metadata__", default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """An image after some step, on the host."""

    tensors: Mapping[str, Tensor]  #: each [1, C, h, w], or a whole number
    weights: str = ""  #: fingerprint of its model

    def write(self) -> bytes:
        """Write it down; read the tensors no sooner than the image has been decoded."""
        tensors = {name: t.contiguous() for name, t in self.tensors.items()}
        return bytes(safetensors.torch.save(tensors, metadata={_WEIGHTS: self.weights}))


class Trail:
    """What one image leaves behind on its way."""

    def __init__(self, sampler: Sampler, reached: Approximation, weights: str = "") -> None:
        """Leave a state at every K that is later than where the image itself began.

        `weights`: fingerprint of the model.
        """
        self._weights = weights
        self._stops: dict[int, int] = {}  #: calls of the model -> K of 50
        self.left: dict[int, State] = {}  #: by K of 50
        steps, history = sampler.num_asked, sampler.history
        if history is not None:
            later = [k for k in whole_skips(steps) if k > reached.skipped_steps]
            self._stops = {history.calls(scaled(k, steps)): k for k in later}

    def note(self, sampler: Sampler, row: PoolRow) -> None:
        """Leave a state behind if this is where one is left; nothing waits for the device."""
        skip = self._stops.get(sampler.position)
        if skip is not None and sampler.history is not None:
            steps = scaled(skip, sampler.num_asked)
            latents, *kept = row.tensors
            tensors = {LATENTS: latents, **sampler.memory(sampler.history, steps, kept)}
            on_host = {name: to_host(tensor) for name, tensor in tensors.items()}
            self.left[skip] = State(on_host, self._weights)


def go_on(
    borrowed: Borrowed, sampler: Sampler, noise: Tensor, weights: str = ""
) -> tuple[Tensor, Approximation]:
    """Begin where another image stood; from this noise if what it left cannot be used.

    The same prompt and seed give the same image, bit by bit, from the same weights, which a
    fingerprint tells from others. Also says what that leaves out.
    Shapes: [1, C, h, w] each.
    """
    try:
        _check_weights(borrowed.data, weights)
        tensors = read_tensors(borrowed.data)
        latents = resume(sampler, borrowed.skipped_steps, tensors, noise)
    except EngineError as error:
        log.warning("latents_not_used", reason=str(error))
        return noise, EXACT
    return latents, skipping(borrowed.skipped_steps)


def _check_weights(data: bytes, weights: str) -> None:
    """Check that what `State.write` wrote is of this model; one of before did not say.

    Raises: EngineError if it is not, or is damaged.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        told = msgspec.json.decode(data[8:end], type=_Header).metadata.get(_WEIGHTS, "")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EngineError(f"borrowed latents are damaged: {error}") from error
    if told and weights and told != weights:
        raise EngineError("borrowed latents were left before the model's weights were replaced")


def read_tensors(data: bytes) -> dict[str, Tensor]:
    """Read what `State.write` wrote.

    Raises: EngineError if it is damaged.
    """
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise EngineError(f"borrowed latents are damaged: {error}") from error
    return tensors


def resume(sampler: Sampler, skip: int, tensors: Mapping[str, Tensor], noise: Tensor) -> Tensor:
    """Move a sampler to K of 50, where another image left these tensors; give its latents.

    Shapes: [1, C, h, w] each.
    Raises: EngineError if they are not of an image like this one; nothing has changed then.
    """
    history, steps = sampler.history, scaled(skip, sampler.num_asked)
    if history is None or skip not in whole_skips(sampler.num_asked):
        raise EngineError(f"nobody begins at K = {skip} of {sampler.num_asked} steps here")
    expected = {LATENTS, *history.names(sampler.scheduler, steps)}
    if tensors.keys() != expected:
        raise EngineError(f"borrowed are {sorted(tensors)}, not {sorted(expected)}")
    for name, tensor in tensors.items():
        if name in history.counts:
            _check_count(name, tensor, history.calls(steps))
        else:
            _check_alike(name, tensor, noise)
    sampler.resume(history, steps, {n: _placed(t, noise) for n, t in tensors.items()}, noise)
    return _placed(tensors[LATENTS], noise)


def _check_count(name: str, count: Tensor, calls: int) -> None:
    if count.dim() or count.dtype != torch.int64 or not 0 <= int(count) <= calls:
        raise EngineError(f"borrowed {name} is no count of {calls} calls")


def _check_alike(name: str, tensor: Tensor, noise: Tensor) -> None:
    if tensor.shape != noise.shape or tensor.dtype != noise.dtype:
        kinds = [f"{tuple(t.shape)} of {t.dtype}" for t in (tensor, noise)]
        raise EngineError(f"borrowed {name} is {kinds[0]}, not {kinds[1]}")
    if not tensor.isfinite().all():
        raise EngineError(f"borrowed {name} is not finite")


def _placed(tensor: Tensor, like: Tensor) -> Tensor:
    """Counts stay on the host, where samplers count."""
    return to_device(tensor, like.device) if tensor.dim() else tensor
