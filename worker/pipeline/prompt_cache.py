"""LRU cache of prompt encodings."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

from torch import Tensor

#: Prompts whose encodings are kept.
KEPT = 64

#: What `core.traits` says of prompts, and who reads: LoRAs of the encoders, by strength.
Key = tuple[Hashable, ...]

#: Tensors of a prompt, as the stock pipeline gives them.
Encoded = tuple[Tensor, ...]


class EncodedPrompts:
    """The encodings of the last prompts."""

    def __init__(self) -> None:
        self._encoded: OrderedDict[Key, Encoded] = OrderedDict()

    def __len__(self) -> int:
        return len(self._encoded)

    def get(self, key: Key, encode: Callable[[], Encoded]) -> Encoded:
        """Give the encoding of a prompt, made now unless it is kept."""
        found = self._encoded.pop(key, None)
        self._encoded[key] = encode() if found is None else found
        if len(self._encoded) > KEPT:
            self._encoded.popitem(last=False)
        return self._encoded[key]

    def clear(self) -> None:
        """Keep none."""
        self._encoded.clear()
