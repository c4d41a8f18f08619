"""One request as a client sends it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: Prompts of every difficulty that the project's own models know, for runs that name none.
PROMPTS = (
    "a red circle",
    "a blue square",
    "a yellow triangle",
    "a small green star on a white background",
    "a large striped purple circle",
    "an orange square in the top left corner",
    "two red circles",
    "a blue circle above a yellow square",
    "a green triangle left of a red star on a black background",
    "three yellow squares",
    "four blue triangles",
    "a red circle, a green square and a blue star",
    "two orange stars and a purple square",
    "a white circle between a red square and a blue square",
)

#: A plain value of a request body, and any.
Option = str | int | float | bool | None
Value = Option | Sequence[Mapping[str, Option]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRequest:
    """One request and the moment it is due."""

    at_s: float  #: seconds after the start
    prompt: str
    options: Mapping[str, Value] = field(default_factory=dict)  #: the rest of the body
    mask_ratio: float = 0.0  #: share of the image that an edit makes anew; 0: no edit
    loras: int = 0  #: how many it brings
    controls: int = 0  #: how many it brings
    cancel_s: float | None = None  #: after its arrival its client cancels it; None: never

    @property
    def body(self) -> dict[str, Value]:
        """Write the body of `POST /v1/jobs`."""
        return {**self.options, "prompt": self.prompt}
