"""LRU cache of prompt encodings."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from threading import Lock

from torch import Tensor

from core import traits
from core.job import JobRequest
from worker.lora.mix import Mix

#: Prompts whose encodings are kept.
KEPT = 64

#: What `core.traits` says of prompts, and who reads: LoRAs of the encoders, by strength.
Key = tuple[Hashable, ...]

#: Tensors of a prompt, as the stock pipeline gives them.
Encoded = tuple[Tensor, ...]


def key_of_prompt(request: JobRequest, is_guided: bool, reader: Mix) -> Key:
    """Say which prompts are the same, read so."""
    return (*traits.key_of(traits.Key.PROMPT, request, is_guided=is_guided).values(), reader.key)


def key_of_negative(request: JobRequest, reader: Mix) -> Key:
    """Say which negative prompts are the same, whatever the prompts."""
    silent = replace(request, prompt="", prompt_2=None, prompt_3=None)
    return ("negative", *key_of_prompt(silent, True, reader))


class EncodedPrompts:
    """The encodings of the last prompts. Any method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._encoded: OrderedDict[Key, Encoded] = OrderedDict()

    def __len__(self) -> int:
        return len(self._encoded)

    def find(self, key: Key) -> Encoded | None:
        """Give the encoding of a prompt, if it is kept."""
        with self._lock:
            if (found := self._encoded.get(key)) is not None:
                self._encoded.move_to_end(key)
            return found

    def keep(self, key: Key, encoded: Encoded) -> None:
        """Keep the encoding of a prompt, and let go of the one that was not asked for longest."""
        with self._lock:
            self._encoded[key] = encoded
            if len(self._encoded) > KEPT:
                self._encoded.popitem(last=False)

    def clear(self) -> None:
        """Keep none."""
        with self._lock:
            self._encoded.clear()
