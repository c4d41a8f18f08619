"""Group the controls of an image by sessions: a Union ControlNet may have one for all pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from core.job import Control
from worker.control.client.conditioning import PromptConditioning, Tell
from worker.control.session import MODES, SCALES, Opening


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionControls:
    """The controls of one session, and their pictures."""

    controls: tuple[Control, ...]  #: several of a Union ControlNet alone
    pictures: tuple[Tensor, ...]  #: as its ControlNet is told of them
    fuses: bool  #: whether a Union is told of several

    @property
    def scale(self) -> float:
        """Scale of what it gives: that of several pictures goes with each."""
        return self.controls[0].scale if len(self.controls) == 1 else 1.0

    def opening(self, tell: Tell, conditioning: PromptConditioning) -> Opening:
        """Say what its ControlNet is told once."""
        first, rows = self.controls[0], len(conditioning.text)
        if first.mode is None:
            return tell(first.controlnet, self.pictures[0], conditioning)
        told = torch.stack(self.pictures) if self.fuses else self.pictures[0]
        opening = tell(first.controlnet, told, conditioning)
        modes, scales = ([getattr(c, name) for c in self.controls] for name in ("mode", "scale"))
        more = {
            name: torch.tensor([of] * rows, dtype=torch.float32)
            for name, of in {MODES: modes, SCALES: scales}.items()
        }
        return replace(opening, added={**opening.added, **more})


def uses_of(
    controls: Sequence[Control], pictures: Sequence[Tensor], *, fuses: bool
) -> Iterator[SessionControls]:
    """Give the sessions of an image, in the order of its request."""
    groups: dict[object, list[int]] = {}
    for at, control in enumerate(controls):
        key = control.controlnet if fuses and control.mode is not None else at
        groups.setdefault(key, []).append(at)
    for numbers in groups.values():
        yield SessionControls(
            controls=tuple(controls[at] for at in numbers),
            pictures=tuple(pictures[at] for at in numbers),
            fuses=fuses,
        )
