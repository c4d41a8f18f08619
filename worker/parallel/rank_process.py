"""Process of the second rank: predict the rows that the first rank sends.

It holds what predicts of a model, knows nothing of jobs, and ends when the first rank does.
"""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from core.log import get_logger
from core.model import Model
from worker.control.client.late_unet import LateRows, RowResiduals
from worker.control.client.steerable import Late
from worker.cpu.cpu_process import follow_parent
from worker.diffusion.device import parse_device, use_host
from worker.diffusion.forward_context import NOTHING, ForwardContext
from worker.diffusion.runner import breaks_device, is_out_of_memory
from worker.diffusion.stock import Module
from worker.futures import tried
from worker.parallel.conditions import read
from worker.parallel.link import Link, LinkLost
from worker.parallel.messages import Predicted, PredictionFailed, RowConditions, SentResiduals, Step
from worker.pipeline.architecture import Architecture
from worker.pipeline.packing import Packed, Packing

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec:
    """What a second rank is to hold."""

    load: Callable[..., Any]  #: reads a model folder for a device; importable by its name
    folder: Path  #: of the model
    model: Model
    device: str  #: its own
    dtype: str
    threads: int


class Computes(Protocol):
    """A runner, as the second rank needs it."""

    unet: Module
    architecture: Architecture
    packing: Packing

    def compute(
        self, latents: Tensor, times: Sequence[float], packed: Packed, context: ForwardContext
    ) -> Tensor: ...
    def trim(self) -> None: ...


def serve(pipe: Connection, spec: RankSpec, meeting: Path) -> None:
    """Be the second rank, in a process of its own, until the first one is gone."""
    follow_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # for a parent that ends without closing it
    use_host(spec.threads)
    runner: Any = spec.load(
        spec.folder,
        spec.model,
        device=spec.device,
        dtype=spec.dtype,
        only_predicts=True,
    )
    pipe.send("ready")
    try:
        link = Link.open(pipe, meeting, 1, parse_device(spec.device))
        RankProcess(runner, link).run()
    except LinkLost:
        os._exit(0)  # nothing is left to put away, and torch takes seconds to


class RankProcess:
    """One model that predicts for another process."""

    def __init__(self, runner: Computes, link: Link) -> None:
        self._runner = runner
        self._link = link
        self._conditions: dict[int, Packed] = {}  #: conditions by number, with their padding
        self._late: Late | None = None  #: made for the first image that is steered
        self._awaits_residuals = False

    def run(self) -> None:
        """Predict whatever is asked for. Raises: LinkLost once the first rank is gone."""
        while True:
            message, tensors = self._link.receive()
            if isinstance(message, RowConditions):
                self._told(message, tensors)
            elif isinstance(message, Step):
                self._step(message, tensors[0])

    def _told(self, message: RowConditions, tensors: Sequence[Tensor]) -> None:
        known = [packed.mixes for packed in self._conditions.values()]
        packed = read(message, tensors, known)
        for number in message.forgotten:
            del self._conditions[number]
        self._conditions[message.number] = packed.padded(
            self._runner.packing.bucket(len(packed.mixes))
        )

    @torch.inference_mode()
    def _step(self, step: Step, latents: Tensor) -> None:
        self._awaits_residuals = step.is_steered
        how = self._runner.architecture.steerability
        if step.is_steered and self._late is None and how is not None:
            self._late = how.late(self._runner.unet)
        context = ForwardContext(LateRows(self._take)) if step.is_steered else NOTHING
        told = self._conditions[step.number]
        made = tried(partial(self._runner.compute, latents, step.times, told, context))
        if not isinstance(made, Exception):
            self._link.send(Predicted(), [made])
        elif isinstance(made, LinkLost) or breaks_device(made):
            raise made  # no later step could succeed: the first rank starts another process
        else:
            self._fail(made)

    def _fail(self, error: Exception) -> None:
        if self._awaits_residuals:
            self._link.receive()  # nobody takes them
        reason, is_memory = f"{type(error).__name__}: {error}", is_out_of_memory(error)
        self._link.send(PredictionFailed(reason=reason, is_memory=is_memory))
        if is_memory:
            error.__traceback__ = None  # its frames hold what the call has made
            self._runner.trim()

    def _take(self) -> Sequence[RowResiduals]:
        """Wait for the residuals of the step at hand."""
        message, tensors = self._link.receive()
        self._awaits_residuals = False
        if not isinstance(message, SentResiduals):
            raise RuntimeError("the first rank has given this step up")
        rest = iter(tensors)
        return [
            RowResiduals(slice(begin, end), [next(rest) for _ in range(count)])
            for (begin, end), count in zip(message.rows, message.counts, strict=True)
        ]
