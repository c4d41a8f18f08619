"""LRU cache of prompt encodings."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from torch import Tensor

#: Prompts whose encodings are kept.
KEPT = 64

#: What `core.traits` says of prompts, and who reads: LoRAs of the encoders, by strength.
Key = tuple[Hashable, ...]

#: Tensors of a prompt, as the stock pipeline gives them.
Encoded = tuple[Tensor, ...]


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
