"""Apply the ControlNets of each image in a batch; images may have none or several."""

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from core.errors import EngineError
from core.job import Control, JobRequest
from core.traits import Use, may
from worker.control.client.conditioning import PromptConditioning
from worker.control.client.late_encoder import LateFeatures, hook_encoder
from worker.control.client.late_unet import LateRows, RowResiduals, among
from worker.control.client.steerable import Late, Steerability
from worker.control.client.steered import Steered
from worker.control.client.uses import SessionControls, uses_of
from worker.control.session import ControlNets, Residuals, Session, StepQuery
from worker.control.stale import Stale
from worker.control.streamed import Streamed
from worker.diffusion.forward_context import NOTHING, ForwardContext
from worker.diffusion.runner import JobInputs, conditions_of
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.stock import Module, Pipe

#: Given the residuals of a batch, passes on some and gives the others.
Divide = Callable[[Sequence[RowResiduals]], Sequence[RowResiduals]]


class Steerable(Protocol):
    """A sample that ControlNets may steer."""

    @property
    def controls(self) -> Sequence[Steered]: ...
    @property
    def rows(self) -> int: ...
    @property
    def image_rows(self) -> int: ...
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
        self._see, self._tell = how.see(pipe), how.tell(pipe)
        self._late: Late | None = None  #: made for the first image that is steered
        self._has_features = False  #: whether blocks wait for those of T2I-Adapters
        self._controlnets = controlnets
        self._stale = stale

    def look(
        self, request: JobRequest, brought: JobInputs | None, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Look at the conditions of one image, before its noise is drawn.

        Raises: EngineError if they are not there.
        """
        adapters = [each.controlnet for each in request.controls if each.is_adapter]
        if adapters and not self._how.has_encoder:
            raise EngineError(f"{adapters[0]} is a T2I-Adapter, and those are for UNets alone")
        conditions = conditions_of(brought)
        if len(conditions) != len(request.controls):
            raise EngineError("this job has come without the conditions of its ControlNets")
        return tuple(self._see(condition, generator) for condition in conditions)

    def open(
        self,
        request: JobRequest,
        seen: Sequence[Tensor],
        sampler: Sampler,
        conditioning: PromptConditioning,
        full: Container[int] | None = None,
        *,
        is_halved: bool = False,
    ) -> tuple[Steered, ...]:
        """Begin the sessions of one image.

        `full`: the steps of an edit that run in full, if it reuses its template at the others;
        `is_halved`: each row has sessions of its own, which may be on workers of their own.
        Raises: EngineError if a ControlNet is not there.
        """
        self._late = self._late or self._how.late(self._model)
        begun: list[Steered] = []
        own, image = range(sampler.position, sampler.num_steps), object()
        with ExitStack() as undo:
            for use in uses_of(request.controls, seen, fuses=self._how.fuses):
                steps = _steps(use.controls[0], own)
                if not steps:  # it begins and ends between two steps
                    continue
                opening = replace(use.opening(self._tell, conditioning), image=image)
                rows = len(opening.text)
                is_divided = is_halved and rows > 1 and not use.controls[0].is_adapter
                for row in range(rows) if is_divided else [None]:
                    session = self._controlnets.open(opening if row is None else opening.of(row))
                    undo.callback(session.close)
                    steered = self._begin(use, session, steps, request, full)
                    steered.row = row
                    begun.append(steered)
            undo.pop_all()
        return tuple(begun)

    def _begin(
        self,
        use: SessionControls,
        session: Session,
        steps: range,
        request: JobRequest,
        full: Container[int] | None,
    ) -> Steered:
        """Say how one ControlNet acts; `steps`: those of the image that it acts at."""
        if not use.controls[0].is_adapter:
            held = frozenset() if full is None else _held(steps, full)
            stale = self._is_stale(request)
            return Steered(session=session, scale=use.scale, steps=steps, is_stale=stale, held=held)
        if not self._has_features:
            hook_encoder(self._model)
            self._has_features = True
        return Steered(
            session=session,
            scale=use.scale,
            steps=steps,
            is_stale=False,
            is_adapter=True,
            held=frozenset(steps[1:]),
        )

    def ask(
        self,
        samples: Sequence[Steerable],
        divide: Divide | None = None,
        numbers: Sequence[int] | None = None,
    ) -> ForwardContext:
        """Have the ControlNets of some samples compute; say what a call for them is told.

        `divide` takes from the residuals those of other processes, which compute all rows but
        `numbers`; rows with T2I-Adapters are never theirs.
        """
        late = self._late
        if late is None:
            return NOTHING
        acting = [
            (steered.rows_of(rows), steered, ask)
            for rows, sample in zip(_rows(samples), samples, strict=True)
            for steered in sample.controls
            if (ask := steered.ask(sample.sampler, sample.latents)) is not None
        ]
        if not acting:
            return NOTHING
        waiting = [steered for _, steered, _ in acting if not steered.features]
        self._controlnets.ask([ask for each in waiting for ask in each.asked.values()])
        nets = _by_rows([each for each in acting if not each[1].is_adapter])
        adapters = _by_rows([each for each in acting if each[1].is_adapter])

        def source() -> Sequence[RowResiduals]:
            residuals = [
                RowResiduals(rows, self._sum(late, [ask for _, ask in own])) for rows, own in nets
            ]
            return divide(residuals) if divide is not None else residuals

        def features() -> Sequence[RowResiduals]:
            found = [RowResiduals(rows, self._features(own)) for rows, own in adapters]
            return found if numbers is None else among(found, numbers)

        context = ForwardContext(LateRows(source)) if nets else NOTHING
        return context | (ForwardContext(LateFeatures(features)) if adapters else NOTHING)

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

    def _features(self, own: Sequence[tuple[Steered, StepQuery]]) -> Sequence[Tensor]:
        """Add up what the T2I-Adapters of one image have said."""
        first, *others = [steered.features_by(self._controlnets, ask) for steered, ask in own]
        if any(len(other) != len(first) for other in others):
            raise EngineError("the T2I-Adapters of this job were made for different models")
        return [sum(each, at) for at, *each in zip(first, *others, strict=True)]


def _rows(samples: Sequence[Steerable]) -> Iterator[slice]:
    """Number the rows of each sample that are steered: not that of an edit's template."""
    end = 0
    for sample in samples:
        begin, end = end, end + sample.rows
        yield slice(begin, begin + sample.image_rows)


def _by_rows(
    acting: Sequence[tuple[slice, Steered, StepQuery]],
) -> list[tuple[slice, list[tuple[Steered, StepQuery]]]]:
    """Put those of one image together."""
    found: dict[int, tuple[slice, list[tuple[Steered, StepQuery]]]] = {}
    for rows, steered, ask in acting:
        found.setdefault(rows.start, (rows, []))[1].append((steered, ask))
    return list(found.values())


def _steps(control: Control, steps: range) -> range:
    """Say at which of an image's steps one acts, as the stock pipelines do."""
    if control.is_adapter:
        return steps[: int(len(steps) * control.end)]
    acting = [
        step
        for number, step in enumerate(steps)
        if number / len(steps) >= control.start and (number + 1) / len(steps) <= control.end
    ]
    return range(acting[0], acting[-1] + 1) if acting else range(0)


def _held(steps: range, full: Container[int]) -> frozenset[int]:
    """Choose every second of the masked steps of an edit: residuals change slowly.

    So a ControlNet, which computes all of the picture, is no slower than masked steps.
    """
    held: set[int] = set()
    for step in steps[1:]:
        if step not in full and step - 1 not in held:
            held.add(step)
    return frozenset(held)
