"""What is a prompt read by? A sentence encoder, shared by all that must know what prompts mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """What an encoder makes of one prompt."""

    vector: Floats  #: [D], of length 1: alike prompts have alike vectors
    features: Floats  #: [F]: what a classifier may go by


class Encoder(Protocol):
    """Reads prompts. May be used from several threads."""

    @property
    def name(self) -> str:
        """Tell its readings from those of any other encoder; fits a file name."""
        ...

    @property
    def size(self) -> int:
        """Count the numbers of a vector."""
        ...

    @property
    def num_features(self) -> int:
        """Count the features."""
        ...

    def read(self, prompts: Sequence[str]) -> list[Reading]:
        """Read each prompt, in order."""
        ...
