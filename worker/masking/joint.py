"""How does a joint block of SD3 compute some picture tokens of some rows?

The block runs as it is, on the masked tokens alone, but for its attention: keys and values are
those of all tokens. Caption tokens are computed in full. Rows of one edit go together, edits one
by one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from worker.masking.rows import MaskedRow, Whole, rest_of
from worker.stock import Argument, Module


class _Widened:
    """An attention that asks with the tokens it is given, and is answered by all tokens."""

    def __init__(self, attention: Module, states: Tensor) -> None:
        self._attention = attention
        self._states = states

    def to_k(self, masked: Tensor) -> Tensor:
        del masked
        keys: Tensor = self._attention.to_k(self._states)
        return keys

    def to_v(self, masked: Tensor) -> Tensor:
        del masked
        values: Tensor = self._attention.to_v(self._states)
        return values

    def __getattr__(self, name: str) -> Argument:
        return getattr(self._attention, name)


class KeysOfAll:
    """Attention processor that may be told the states of all tokens before it runs."""

    def __init__(self, stock: Argument) -> None:
        self._stock = stock
        self.states: Tensor | None = None  #: normed, [R, L, C]; None is nothing but the stock one

    def __call__(
        self, attn: Module, hidden_states: Tensor, **kwargs: Argument
    ) -> tuple[Tensor, Tensor] | Tensor:
        """Attend from the tokens given. Shapes: picture [R, M, C]."""
        asked = attn if self.states is None else _Widened(attn, self.states)
        mixed: tuple[Tensor, Tensor] | Tensor = self._stock(asked, hidden_states, **kwargs)
        return mixed

    @classmethod
    def install(cls, block: Module) -> None:
        """Put one in front of the processor of each attention of a block."""
        for attention in _attentions(block):
            attention.set_processor(cls(attention.processor))


def cut_joint_block(
    whole: Whole,
    block: Module,
    masked: dict[int, MaskedRow],
    name: str,
    *,
    hidden_states: Tensor,
    encoder_hidden_states: Tensor,
    temb: Tensor,
    **kwargs: Argument,
) -> tuple[tuple[Tensor | None, Tensor], Tensor]:
    """Compute the block's output: rows in full by `whole`, the others under their masks.

    Gives what the block returns, and again the picture tokens in it.
    Shapes: hidden_states [B, L, C], encoder_hidden_states [B, T, C], temb [B, C].
    """
    batch, length = hidden_states.shape[:2]
    pictures = torch.empty_like(hidden_states)
    captions = torch.empty_like(encoder_hidden_states)

    def run(rows: Tensor, tokens: Tensor) -> Tensor:
        picture: Tensor
        caption, picture = whole(
            hidden_states=hidden_states[rows][:, tokens],
            encoder_hidden_states=encoder_hidden_states[rows],
            temb=temb[rows],
            **kwargs,
        )
        if caption is not None:  # the last block has no use for it
            captions[rows] = caption
        return picture

    for row, numbers in _alike(masked):
        rows = torch.tensor(numbers, device=hidden_states.device)
        tokens = row.tokens(length)
        with _answered_by(block, hidden_states[rows], temb[rows]):
            computed = run(rows, tokens)
        pictures[rows] = row.cached[name].to(pictures.dtype)
        pictures[rows[:, None], tokens] = computed
    if others := rest_of(masked, batch):
        rest = torch.tensor(others, device=hidden_states.device)
        pictures[rest] = run(rest, torch.arange(length, device=hidden_states.device))
    caption = None if block.context_pre_only else captions
    return (caption, pictures), pictures


@contextmanager
def _answered_by(block: Module, hidden: Tensor, temb: Tensor) -> Iterator[None]:
    """Tell the block's attentions what all tokens of some rows are. Shapes: [R, L, C], [R, C]."""
    normed = block.norm1(hidden, emb=temb)
    # The first is for joint attention, the sixth for the picture's own, where there is one.
    for attention, at in zip(_attentions(block), (0, 5), strict=False):
        attention.processor.states = normed[at]
    try:
        yield
    finally:
        for attention in _attentions(block):
            attention.processor.states = None


def _alike(masked: dict[int, MaskedRow]) -> list[tuple[MaskedRow, list[int]]]:
    """Put the rows of one edit together: they share mask and template."""
    groups: dict[int, tuple[MaskedRow, list[int]]] = {}
    for at, row in masked.items():
        groups.setdefault(id(row), (row, []))[1].append(at)
    return list(groups.values())


def _attentions(block: Module) -> list[Module]:
    return [block.attn] if block.attn2 is None else [block.attn, block.attn2]
