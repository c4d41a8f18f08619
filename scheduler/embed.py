"""What does a prompt mean, as a vector? Prompts read lately are not read again."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from core.settings import Settings
from storage.vectors import Vector
from worker.affinity.encoder import Encoder, Reading
from worker.affinity.installed import open_encoder

#: Prompts whose readings are kept: 6 KiB each. A prompt is asked for when it is classified, when
#: its job is placed, and again when the job has left its latents.
REMEMBERED = 10_000


class Embedder(Protocol):
    """Turns prompts into vectors. May be used from several threads."""

    @property
    def name(self) -> str:
        """Tell its vectors from those of any other encoder; fits a file name."""
        ...

    @property
    def size(self) -> int:
        """Count the numbers of a vector."""
        ...

    def embed(self, prompts: Sequence[str]) -> list[Vector]:
        """Embed each prompt. Shapes: [D] each, of length 1."""
        ...


class Remembering:
    """Reads what it has not read lately."""

    def __init__(self, encoder: Encoder, capacity: int = REMEMBERED) -> None:
        self._encoder = encoder
        self._capacity = capacity
        self._known: OrderedDict[str, Reading] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._encoder.name

    @property
    def size(self) -> int:
        return self._encoder.size

    @property
    def num_features(self) -> int:
        return self._encoder.num_features

    def embed(self, prompts: Sequence[str]) -> list[Vector]:
        """Embed each prompt, a new one once."""
        return [reading.vector for reading in self.read(prompts)]

    def read(self, prompts: Sequence[str]) -> list[Reading]:
        """Read each prompt, a new one once."""
        found = self._recall(prompts)
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in found]
        if new:
            found |= dict(zip(new, self._encoder.read(new), strict=True))
            self._keep(found)
        return [found[prompt] for prompt in prompts]

    def _recall(self, prompts: Sequence[str]) -> dict[str, Reading]:
        with self._lock:
            return {prompt: self._known[prompt] for prompt in prompts if prompt in self._known}

    def _keep(self, found: dict[str, Reading]) -> None:
        with self._lock:
            for prompt, reading in found.items():
                self._known[prompt] = reading
                self._known.move_to_end(prompt)
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)


def open_embedder(settings: Settings) -> Remembering:
    """Open the encoder of these settings.

    Raises:
        ConfigurationError: there is none, or its weights are not those we know.
    """
    return Remembering(open_encoder(settings))
