"""Embed prompts as vectors, with a cache of recent prompts."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from classifier.encoder.encoder import Floats, SentenceEncoder
from classifier.encoder.installed import open_encoder
from core.settings import Settings
from storage.vectors.index import Vector

#: Prompts whose embeddings are kept: 1.5 KiB each. A prompt is asked for when its job is placed
#: and again when the job has left its latents.
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


class EmbeddingEncoder(Embedder, SentenceEncoder, Protocol):
    """One encoder for all that prompts are read for: its weights are in memory once."""


class Remembering:
    """Embeds what it has not embedded lately."""

    def __init__(self, encoder: EmbeddingEncoder, capacity: int = REMEMBERED) -> None:
        self._encoder = encoder
        self._capacity = capacity
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._encoder.name

    @property
    def size(self) -> int:
        return self._encoder.size

    def embed(self, prompts: Sequence[str]) -> list[Vector]:
        """Embed each prompt, a new one once."""
        found = self._recall(prompts)
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in found]
        if new:
            found |= dict(zip(new, self._encoder.embed(new), strict=True))
            self._keep(found)
        return [found[prompt] for prompt in prompts]

    def features(self, prompts: Sequence[str]) -> Floats:
        """Read prompts as a classifier does, every time. Shapes: [P, F]."""
        return self._encoder.features(prompts)

    def _recall(self, prompts: Sequence[str]) -> dict[str, Vector]:
        with self._lock:
            return {prompt: self._known[prompt] for prompt in prompts if prompt in self._known}

    def _keep(self, found: dict[str, Vector]) -> None:
        with self._lock:
            for prompt, vector in found.items():
                self._known[prompt] = vector
                self._known.move_to_end(prompt)
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)


def open_embedder(settings: Settings) -> Remembering:
    """Open the encoder of these settings.

    Raises:
        ConfigurationError: there is none, or its weights are not those we know.
    """
    return Remembering(open_encoder(settings))
