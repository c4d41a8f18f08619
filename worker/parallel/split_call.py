"""Split one model call over two devices that compute at the same time.

SwiftDiffusion §4.3, latent parallelism. Latents go out and predictions come back at every step,
conditions only when the batch changes. Whatever befalls the second rank, the step is made here.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from core.log import get_logger
from worker.control.client.late_unet import LateRows, RowResiduals, among
from worker.diffusion.forward_context import ForwardContext
from worker.parallel.halves import halve
from worker.parallel.link import Link, LinkLost
from worker.parallel.messages import PredictionFailed, ResidualsLost, SentResiduals, Step
from worker.parallel.second_rank import SecondRank
from worker.parallel.sent_rows import Briefing, Told
from worker.pipeline.overlays import Overlays
from worker.pipeline.packing import Packed, Packing
from worker.pipeline.sample import UNetSample

log = get_logger(__name__)

#: How long the second rank may take for its half: so many times as long as the first, and more.
PATIENCE, LEAST_PATIENCE_S = 10.0, 10.0
#: At least that, where it compiles what it is asked for the first time.
COMPILING_S = 300.0
#: How long it may take to give up a step that the first rank has failed at.
ABANDONED_S = 60.0

#: Predicts rows in this process: latents [B, C, h, w], their times and conditions, and what hooks
#: are told of them -> [B, C, h, w].
Compute = Callable[[Tensor, Sequence[float], Packed, ForwardContext], Tensor]


class _HalfFailed(Exception):
    """The second rank could not make its half of a step, and is ready for the next one."""


class Halving:
    """Calls one model for its rows and for those of its second rank. Of the engine's thread."""

    def __init__(
        self, second_rank: SecondRank, overlays: Overlays, packing: Packing, compute: Compute
    ) -> None:
        self._second_rank = second_rank
        self._overlays = overlays
        self._packing = packing
        self._compute = compute
        self._briefing: Briefing | None = None  #: of the second rank there is, or was

    def predict(
        self,
        samples: Sequence[UNetSample],
        packed: Packed,
        latents: Sequence[Tensor],
        times: Sequence[float],
    ) -> Tensor | None:
        """Predict all rows of a batch, or none if that is to be done by this process alone.

        Shapes: latents B of [1, C, h, w], times [B] -> [B, C, h, w].
        """
        link, halves = self._second_rank.link, halve(samples)
        if link is None or not halves.there:
            return None
        try:
            if self._briefing is None or self._briefing.link is not link:
                self._briefing = Briefing(link, self._packing)
            told = self._briefing.tell(packed, halves)
            exchange = _Exchange(link=link, told=told, is_of_one=len(samples) == 1)
            return self._predict(exchange, samples, latents, times)
        except LinkLost as error:
            self._briefing = None
            link.abort()
            self._second_rank.lose(link, str(error))
        except _HalfFailed as error:
            log.warning("second_rank_failed", reason=str(error))
        return None

    def close(self) -> None:
        """End the second rank."""
        self._briefing = None
        self._second_rank.close()

    def _predict(
        self,
        exchange: "_Exchange",
        samples: Sequence[UNetSample],
        latents: Sequence[Tensor],
        times: Sequence[float],
    ) -> Tensor:
        told = exchange.told
        here, there = told.halves.here, told.halves.there
        seen, asked = (torch.cat([latents[row] for row in half]) for half in (here, there))
        began = time.monotonic()
        with self._overlays.applied(samples, here, exchange.divide) as context:
            is_steered = context.get(LateRows) is not None
            exchange.ask(asked, [times[row] for row in there], is_steered)
            with exchange:
                mine = self._compute(seen, [times[row] for row in here], told.here, context)
            least_s = COMPILING_S if self._packing.buckets else LEAST_PATIENCE_S
            theirs = exchange.answer(least_s + PATIENCE * (time.monotonic() - began))
        made = zip((*here, *there), (*torch.split(mine, 1), *torch.split(theirs, 1)), strict=True)
        return torch.cat([row for _, row in sorted(made, key=lambda numbered: numbered[0])])


@dataclass(slots=True, kw_only=True, eq=False)
class _Exchange:
    """One step, as the first rank has the second make its half of it."""

    link: Link
    told: Told
    is_of_one: bool  #: whether the batch cannot be any smaller
    _awaits_residuals: bool = field(default=False, init=False)

    def ask(self, latents: Tensor, times: Sequence[float], is_steered: bool) -> None:
        """Have the second rank begin. Shapes: latents [rows, C, h, w]."""
        step = Step(number=self.told.number, times=tuple(times), is_steered=is_steered)
        self.link.send(step, [latents])
        self._awaits_residuals = is_steered

    def divide(self, rows: Sequence[RowResiduals]) -> list[RowResiduals]:
        """Pass on the residuals of the second rank's rows; give those of the first one's."""
        theirs = among(rows, self.told.halves.there)
        message = SentResiduals(
            rows=tuple((each.rows.start, each.rows.stop) for each in theirs),
            counts=tuple(len(each.residuals) for each in theirs),
        )
        self._awaits_residuals = False
        self.link.send(message, [tensor for each in theirs for tensor in each.residuals])
        return among(rows, self.told.halves.here)

    def __enter__(self) -> None:
        """Compute the first rank's half meanwhile."""

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Have the second rank give this step up if the first could not make its half.

        It must not wait to be heard; a link that is lost, as residuals were passed on, is so alone.
        """
        if kind is None or issubclass(kind, LinkLost):
            return
        if self._awaits_residuals:
            self.link.send(ResidualsLost())
        self.link.receive(ABANDONED_S)

    def answer(self, patience_s: float) -> Tensor:
        """Wait for the other half. Shapes: [rows, C, h, w].

        Raises:
            LinkLost, _HalfFailed: the second rank is gone, or could not make it.
            MemoryError: its device has too little, and a smaller batch may do.
        """
        message, tensors = self.link.receive(patience_s)
        if not isinstance(message, PredictionFailed):
            return tensors[0]
        if message.is_memory and not self.is_of_one:
            raise MemoryError(f"the second device: {message.reason}")
        raise _HalfFailed(message.reason)
