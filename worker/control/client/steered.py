"""State of one image and one of its ControlNets: what was asked, and whose answer acts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from worker.control.session import ControlNets, Session, StepQuery
from worker.diffusion.samplers.sampler import Sampler


@dataclass(slots=True, kw_only=True, eq=False)
class Steered:
    """One image and one ControlNet, or T2I-Adapter, of it."""

    session: Session
    scale: float
    steps: range  #: of the schedule, that it acts at
    is_stale: bool | None  #: whether it acts a step late; None while that is not decided
    is_adapter: bool = False  #: whether it is a T2I-Adapter: asked once
    held: frozenset[int] = frozenset()  #: steps at which what it said last acts on
    asked: dict[int, StepQuery] = field(
        default_factory=dict
    )  #: at the step at hand and the one before
    features: Sequence[Tensor] = ()  #: what an adapter has said
    row: int | None = None  #: of the image's rows, the one that it steers; None: all of them

    def rows_of(self, image: slice) -> slice:
        """Number the rows that it steers, where an image has these."""
        if self.row is None:
            return image
        return slice(image.start + self.row, image.start + self.row + 1)

    def ask(self, sampler: Sampler, latents: Tensor) -> StepQuery | None:
        """Ask for the step at hand, and say whose answer it takes; None where it does not act.

        The step at hand may be tried more than once, and asks the same then.
        """
        at = sampler.position
        if at not in self.steps:
            return None
        if at in self.held and self.asked:
            return self.asked[max(self.asked)]
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

    def features_by(self, controlnets: ControlNets, ask: StepQuery) -> Sequence[Tensor]:
        """Give what an adapter says, once and for all: its session ends with the first answer."""
        if not self.features:
            self.features = [each.clone() for each in controlnets.answer(ask)]
            self.session.close()
        return self.features
