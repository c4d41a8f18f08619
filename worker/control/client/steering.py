"""Apply the ControlNets of each image in a batch; images may have none or several."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from core.errors import EngineError
from core.job import Control, JobRequest
from core.traits import Use, may
from worker.control.client.conditioning import PromptConditioning
from worker.control.client.late_unet import LateRows, RowResiduals
from worker.control.client.steerable import Late, Steerability
from worker.control.session import ControlNets, Residuals, Session, StepQuery
from worker.control.stale import Stale
from worker.control.streamed import Streamed
from worker.diffusion.device import as_tensor
from worker.diffusion.forward_context import NOTHING, ForwardContext
from worker.diffusion.runner import ControlImages, JobInputs
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.stock import Module, Pipe

#: Given the residuals of a batch, passes on some and gives the others.
Divide = Callable[[Sequence[RowResiduals]], Sequence[RowResiduals]]


@dataclass(slots=True, kw_only=True, eq=False)
class Steered:
    """One image and one ControlNet of it."""

    session: Session
    scale: float
    steps: range  #: of the schedule, that it acts at
    is_stale: bool | None  #: whether it acts a step late; None while that is not decided
    asked: dict[int, StepQuery] = field(
        default_factory=dict
    )  #: at the step at hand and the one before

    def ask(self, sampler: Sampler, latents: Tensor) -> StepQuery | None:
        """Ask for the step at hand, and say whose answer it takes; None where it does not act.

        The step at hand may be tried more than once, and asks the same then.
        """
        at = sampler.position
        if at not in self.steps:
            return None
        if self.is_stale is None and at > self.steps.start:
            self.is_stale = self.session.is_slow
        is_last = at + 1 not in self.steps
        is_late = bool(self.is_stale) and at - 1 in self.asked
        if at not in self.asked and not (is_late and is_last):
            asked = StepQuery(
                session=self.session,
                position=at,
                time=sampler.time,
                latents=sampler.scale(latents),
                scale=self.scale,
            )
            self.asked = {was: ask for was, ask in self.asked.items() if was == at - 1}
            self.asked[at] = asked
        return self.asked[at - 1 if is_late else at]


class Steerable(Protocol):
    """A sample that ControlNets may steer."""

    @property
    def controls(self) -> Sequence[Steered]: ...
    @property
    def rows(self) -> int: ...
    @property
    def sampler(self) -> Sampler: ...
    @property
    def latents(self) -> Tensor: ...


class Steering:
    """Has the ControlNets of a model's images computed beside it."""

    def __init__(
        self,
        model: Module,
        pipe: Pipe,
        how: Steerability,
        controlnets: ControlNets,
        stale: Stale,
    ) -> None:
        """Prepare; `how` ControlNets of this model's architecture are told and heard."""
        self._model = model
        self._how = how
        self._tell = how.tell(pipe)
        self._late: Late | None = None  #: made for the first image that is steered
        self._controlnets = controlnets
        self._stale = stale

    def open(
        self,
        request: JobRequest,
        brought: JobInputs | None,
        sampler: Sampler,
        conditioning: PromptConditioning,
    ) -> tuple[Steered, ...]:
        """Begin the sessions of one image.

        Raises: EngineError if its conditions are not there, or a ControlNet is not.
        """
        if not isinstance(brought, ControlImages):
            raise EngineError("this job has come without the conditions of its ControlNets")
        self._late = self._late or self._how.late(self._model)
        begun: list[Steered] = []
        with ExitStack() as undo:
            for control, condition in zip(request.controls, brought.images, strict=True):
                opening = self._tell(control.controlnet, as_tensor(condition), conditioning)
                session = self._controlnets.open(opening)
                undo.callback(session.close)
                steps = _steps(control, sampler.num_steps)
                is_stale = self._is_stale(request)
                begun.append(
                    Steered(session=session, scale=control.scale, steps=steps, is_stale=is_stale)
                )
            undo.pop_all()
        return tuple(begun)

    def ask(self, samples: Sequence[Steerable], divide: Divide | None = None) -> ForwardContext:
        """Have the ControlNets of some samples compute; say what a call for them is told.

        `divide` takes from the residuals those of other processes.
        """
        asked = [(rows, asks) for rows, asks in map(_asks_of, _rows(samples), samples) if asks]
        late = self._late
        if not asked or late is None:
            return NOTHING
        self._controlnets.ask(
            [
                ask
                for sample in samples
                for steered in sample.controls
                for ask in steered.asked.values()
            ]
        )

        def source() -> Sequence[RowResiduals]:
            residuals = [RowResiduals(rows, self._sum(late, asks)) for rows, asks in asked]
            return divide(residuals) if divide is not None else residuals

        return ForwardContext(LateRows(source))

    def _is_stale(self, request: JobRequest) -> bool | None:
        if self._stale is Stale.NEVER or not may(Use.LATE, request):
            return False
        return True if self._stale is Stale.ALWAYS else None

    def _sum(self, late: Late, asks: Sequence[StepQuery]) -> Residuals:
        """Add up what the ControlNets of one image give, in the order of its request."""
        first, *others = [late.spread(self._controlnets.answer(ask)) for ask in asks]
        if any(len(other) != len(first) for other in others):
            raise EngineError("the ControlNets of this job were made for different models")
        return Streamed(len(first), lambda at: sum((each[at] for each in others), first[at]))


def _rows(samples: Sequence[Steerable]) -> Iterator[slice]:
    """Number the rows of each sample."""
    end = 0
    for sample in samples:
        begin, end = end, end + sample.rows
        yield slice(begin, end)


def _asks_of(rows: slice, sample: Steerable) -> tuple[slice, list[StepQuery]]:
    asks = [steered.ask(sample.sampler, sample.latents) for steered in sample.controls]
    return rows, [ask for ask in asks if ask is not None]


def _steps(control: Control, num_steps: int) -> range:
    """Say at which steps a ControlNet acts, as the stock pipelines do."""
    acting = [
        step
        for step in range(num_steps)
        if step / num_steps >= control.start and (step + 1) / num_steps <= control.end
    ]
    return range(acting[0], acting[-1] + 1) if acting else range(0)
