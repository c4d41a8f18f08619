"""LRU cache of LoRAs in host memory within a byte budget, with late loading.

A job whose LoRAs are on their way starts without them, as far as they allow, and then waits: what
decides how a picture looks at first hardly depends on them (Katz, section 6).
"""

import threading
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from catalog.lora.bounds import NO_BOUNDS, Bounds
from catalog.lora.names import Shapes
from catalog.lora.parse import LayerChange
from core.errors import AtelierError, EngineError
from core.job import JobRequest, Quality
from core.levels.schedule import scaled
from core.telemetry import metrics
from core.traits import Use, may
from core.uploads.lora import AppliedLora
from worker.diffusion.samplers.sampler import Sampler
from worker.futures import failed, resolve, tried
from worker.lora.mix import Lora, Mix


class Loads(Protocol):
    """What brings LoRAs into memory."""

    def load(
        self, use: AppliedLora, shapes: Shapes
    ) -> "Future[tuple[Tensor, list[LayerChange]]]": ...


@dataclass(frozen=True, slots=True, eq=False)
class Awaited:
    """The LoRAs of one image, all there or on their way."""

    request: JobRequest
    loading: "tuple[Future[Lora], ...]"  #: in the order of the request
    bound: int  #: K of 50: so much of the schedule may run without them

    @property
    def is_there(self) -> bool:
        """Whether all are there, or will never be."""
        return all(each.done() for each in self.loading)

    def is_due(self, sampler: Sampler) -> bool:
        """Tell whether the next step of a schedule may not be taken without them."""
        return not self.is_there and sampler.position >= scaled(self.bound, sampler.num_steps)

    def mix(self) -> Mix:
        """Mix them as asked for. Raises: EngineError saying which could not be loaded, and why."""
        uses = zip(self.loading, self.request.loras, strict=True)
        return Mix.of(
            [(_loaded(each, use), use.scale) for each, use in uses],
            is_fixed=self.request.quality is Quality.EXACT,
        )


@dataclass(frozen=True, slots=True, eq=False)
class CachedLora:
    """One LoRA in memory, or on its way."""

    loading: "Future[Lora]"
    num_bytes: int
    shapes: Shapes  #: of the layers that it was read for


class LoraCache:
    """LoRAs in host memory. Every method may be called from any thread."""

    def __init__(self, loader: Loads, budget_bytes: int, bounds: Bounds = NO_BOUNDS) -> None:
        """Prepare an empty shelf; `bounds` say how long images may do without what is missing."""
        self._loader = loader
        self._bounds = bounds
        self._budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], CachedLora] = OrderedDict()

    def ask(self, request: JobRequest, shapes: Shapes) -> Awaited:
        """Have the LoRAs of a request loaded for a model with these layers."""
        loading = tuple(self._ask(use, request, shapes) for use in request.loras)
        return Awaited(request, loading, self._bound(request))

    def num_bytes(self) -> int:
        """Count what is kept, or on its way."""
        with self._lock:
            return sum(kept.num_bytes for kept in self._kept.values())

    def _bound(self, request: JobRequest) -> int:
        """Edits and exact images wait from the start."""
        if not may(Use.LATE, request):
            return 0
        return min((self._bounds.of(use, request.model) for use in request.loras), default=0)

    def _ask(self, use: AppliedLora, request: JobRequest, shapes: Shapes) -> "Future[Lora]":
        key = (use.id, request.model)
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None and kept.shapes == shapes:  # else another model has its name now
                self._kept[key] = kept
                metrics.cache_hits.labels("loras", "memory").inc()
                return kept.loading
            answer: Future[Lora] = Future()
            self._kept[key] = CachedLora(answer, use.size_bytes, shapes)
            self._make_room()
        metrics.cache_hits.labels("loras", "none").inc()
        loading = tried(partial(self._loader.load, use, shapes))
        if isinstance(loading, Exception):  # no file descriptor is left, say: somebody waits for it
            loading = failed(loading)
        loading.add_done_callback(partial(self._receive, key, answer))
        return answer

    def _make_room(self) -> None:
        """Let go of those used longest ago; images that have them keep them until they are made."""
        total = sum(kept.num_bytes for kept in self._kept.values())
        while total > self._budget_bytes and len(self._kept) > 1:
            total -= self._kept.popitem(last=False)[1].num_bytes

    def _receive(
        self,
        key: tuple[str, str],
        answer: "Future[Lora]",
        loading: "Future[tuple[Tensor, list[LayerChange]]]",
    ) -> None:
        def make() -> Lora:
            with ExitStack() as undo:
                undo.callback(self._forget, key, answer)
                lora = Lora.of(key[0], *loading.result())
                undo.pop_all()
            return lora

        resolve(answer, make)

    def _forget(self, key: tuple[str, str], answer: "Future[Lora]") -> None:
        """Have a LoRA that could not be loaded tried again by whoever asks next."""
        with self._lock:
            if (kept := self._kept.get(key)) is not None and kept.loading is answer:
                del self._kept[key]


def _loaded(loading: "Future[Lora]", use: AppliedLora) -> Lora:
    error = loading.exception()
    if error is None:
        return loading.result()
    if isinstance(error, EngineError):
        raise error
    reason = str(error) if isinstance(error, AtelierError) else type(error).__name__
    raise EngineError(f"LoRA {use.id} could not be loaded: {reason}") from error
