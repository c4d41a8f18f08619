"""Draw the request of each arrival. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from loadgen.arrivals import Seconds

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

#: A value of a request body.
Option = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRequest:
    """One request and the moment it is due."""

    at_s: float  #: seconds after the start
    prompt: str
    options: Mapping[str, Option] = field(default_factory=dict)  #: the rest of the body

    @property
    def body(self) -> dict[str, Option]:
        """Write the body of `POST /v1/jobs`."""
        return {**self.options, "prompt": self.prompt}


def make_asks(
    seconds: Seconds, prompts: Sequence[str], options: Mapping[str, Option], *, seed: int
) -> list[TimedRequest]:
    """Draw a prompt for each arrival; every request gets an image seed of its own."""
    chosen = np.random.default_rng(seed).integers(len(prompts), size=len(seconds))
    return [
        TimedRequest(at_s=float(at_s), prompt=prompts[which], options={"seed": seed + i, **options})
        for i, (at_s, which) in enumerate(zip(seconds, chosen, strict=True))
    ]
