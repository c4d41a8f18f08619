"""Interface between a base model and its ControlNets, local or remote.

An image opens one session with each of its ControlNets, which carries its condition and prompt
once; after that, each step sends latents and gets residuals (Katz, section 5).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from torch import Tensor

from worker.control.streamed import Streamed


class Residuals(Protocol):
    """What one ControlNet adds to the features of a base model, in its own order.

    UNets: one a connection from encoder to decoder, then that of the middle.
    Transformers: one a block of the ControlNet, of every picture token.
    Shapes: [rows, C, h, w] each; of transformers [rows, N, C].
    """

    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]: ...


#: What a Union ControlNet is told of its pictures, among what is added: [rows, pictures] each.
MODES, SCALES = "control modes", "control scales"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opening:
    """What a ControlNet is told of an image once, before its first step."""

    controlnet: str  #: its id
    #: To keep to: a picture, uint8, [H, W, 3], of a Union several; or its latents, [2, C, h, w].
    condition: Tensor
    text: Tensor  #: [rows, T, D]
    added: Mapping[str, Tensor]  #: what else the prompt gives the model, each [rows, ...]
    image: object = field(default_factory=object)  #: tells the sessions of one image from others'

    def of(self, row: int) -> "Opening":
        """Tell of one row alone."""
        added = {name: value[row : row + 1] for name, value in self.added.items()}
        return replace(self, text=self.text[row : row + 1], added=added)


class Session(Protocol):
    """One image and one ControlNet, from the first step to the last."""

    @property
    def is_slow(self) -> bool | None:
        """Whether waiting for its link costs too much; None while that is not known."""
        ...

    def waits_for(self) -> str | None:
        """Say what it cannot be asked without, if that is not there yet.

        Raises: EngineError if there is no hope of it.
        """
        ...

    def close(self) -> None:
        """Ask nothing more. May be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepQuery:
    """What a session asks at one step."""

    session: Session
    position: int  #: of the schedule; names the ask within its session
    time: float  #: timestep
    latents: Tensor  #: as the base model sees them, [1, C, h, w]
    scale: float  #: of the residuals


class ControlNets(Protocol):
    """All ControlNets that a base model can ask. Called by the engine thread only."""

    def open(self, opening: Opening) -> Session:
        """Begin a session. Raises: EngineError if there is no such ControlNet."""
        ...

    def ask(self, asks: Sequence[StepQuery]) -> None:
        """Have residuals computed, beside the caller where that can be; asking twice is once."""
        ...

    def answer(self, ask: StepQuery) -> Streamed:
        """Give the residuals of an ask, scaled. They last until the next but one is asked.

        The first ones are there; whoever reads another waits for it, which raises the same.

        Raises:
            NotReady: the ControlNet is lost, or late; its session says when to ask again.
            EngineError: it cannot compute them.
        """
        ...
