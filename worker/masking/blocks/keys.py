"""Reuse a template's keys and values for the tokens outside the mask.

The other way of InstGenIE (section 3.1, Fig. 7): tokens outside the mask are not even normed and
projected. They are kept as the projections give them, before norms of keys and rotary embedding:
the one place where all attentions look alike (docs/adr/0005 says what that costs).
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from worker.diffusion.stock import Module
from worker.masking.blocks.attention import Attention, Captioned, Widen, attentions

_KEYS, _VALUES = "keys", "values"


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """Keys and values of a template at one block, all its tokens, [L, C] each."""

    parts: Mapping[str, Tensor]
    name: str  #: of the block

    def keys(self, attention: str) -> Tensor:
        """Give the keys of one attention of the block. Shapes: [L, C]."""
        return self.parts[f"{self.name}/{attention}/{_KEYS}"]

    def values(self, attention: str) -> Tensor:
        """Give the values of one attention of the block. Shapes: [L, C]."""
        return self.parts[f"{self.name}/{attention}/{_VALUES}"]


class Filled(Captioned):
    """An attention that is answered by the tokens that ask and, for all others, by the template."""

    def __init__(
        self,
        attention: Module,
        *,
        kept: KeptKeys,
        name: str,
        tokens: Tensor,
        captions: Tensor | None = None,
    ) -> None:
        """Take what is kept of the attention with this name, and the picture tokens that ask."""
        super().__init__(attention, captions)
        self._kept = kept
        self._name = name
        self._tokens = tokens

    def to_k(self, asking: Tensor) -> Tensor:
        """Project keys. Shapes: [R, M, C] -> [R, L, C], or with a caption before both."""
        return self._fill(self._kept.keys(self._name), self._attention.to_k(asking))

    def to_v(self, asking: Tensor) -> Tensor:
        """Project values. Shapes: [R, M, C] -> [R, L, C], or with a caption before both."""
        return self._fill(self._kept.values(self._name), self._attention.to_v(asking))

    def _fill(self, kept: Tensor, made: Tensor) -> Tensor:
        length = made.shape[1] - len(self._tokens)
        caption, masked = made[:, :length], made[:, length:]
        picture = kept.to(made.dtype).expand(len(made), -1, -1).index_copy(1, self._tokens, masked)
        return torch.cat([caption, picture], dim=1) if length else picture


class Listening(Attention):
    """An attention whose keys and values are noted, of the picture and of a caption before it."""

    def __init__(self, attention: Module, *, name: str, heard: dict[str, Tensor]) -> None:
        super().__init__(attention)
        self._name = name
        self._heard = heard

    def to_k(self, states: Tensor) -> Tensor:
        """Project keys. Shapes: [R, L, C]."""
        return self._note(_KEYS, self._attention.to_k(states))

    def to_v(self, states: Tensor) -> Tensor:
        """Project values. Shapes: [R, L, C]."""
        return self._note(_VALUES, self._attention.to_v(states))

    def _note(self, part: str, made: Tensor) -> Tensor:
        self._heard[f"{self._name}/{part}"] = made
        return made


def listening_to(block: Module, heard: dict[str, Tensor]) -> dict[str, Widen]:
    """Have keys and values of the rows that a block runs in full noted, by their names in it."""
    return {name: partial(Listening, name=name, heard=heard) for name in attentions(block)}


def keys_of(name: str, block: Module) -> list[str]:
    """Name what is kept of a block."""
    return [
        f"{name}/{attention}/{part}" for attention in attentions(block) for part in (_KEYS, _VALUES)
    ]


def has_keys(cached: Container[str], name: str) -> bool:
    """Tell whether it is keys and values that are kept of a block: each has this attention."""
    return f"{name}/attn/{_KEYS}" in cached
