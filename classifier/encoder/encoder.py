"""Protocol of the shared sentence encoder of prompts."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class SentenceEncoder(Protocol):
    """Reads prompts. May be used from several threads."""

    @property
    def name(self) -> str:
        """Tell what it reads from what any other encoder does; fits a file name."""
        ...

    def features(self, prompts: Sequence[str]) -> Floats:
        """Say what a classifier may go by. Shapes: [P, F]."""
        ...
