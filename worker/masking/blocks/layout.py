"""Lay out the masked tokens of several rows: which are read, how they attend, and where they go.

It stays the same for all blocks of one length and for all steps, as long as nobody joins or leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

#: Layouts that are remembered: of the calls of one step, at each length of a model.
_REMEMBERED = 32


class RowSpan(NamedTuple):
    """Rows that attend in one call, with as many tokens each."""

    begin: int  #: its first row
    end: int
    asking: int  #: tokens of each row

    @property
    def rows(self) -> slice:
        """Its rows."""
        return slice(self.begin, self.end)

    @property
    def num_tokens(self) -> int:
        """Tokens of all its rows."""
        return (self.end - self.begin) * self.asking


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Where the masked tokens of some rows are; tokens are numbered through all rows."""

    spans: Sequence[RowSpan]
    read: Tensor  #: tokens that attend, span after span, [N]
    kept: Tensor | None  #: which of those are no padding, [M]; None if none is
    written: Tensor  #: the tokens that are computed, [M]


@lru_cache(maxsize=_REMEMBERED)
def lay_out(tokens: tuple[Tensor, ...], length: int, *, is_padded: bool) -> Layout:
    """Lay out the masked tokens of each row.

    Rows of one edit share their tensor of tokens, and attend in one call. So do all rows if they
    are padded to as many tokens: a few more are computed than are wanted, by far fewer kernels.
    Shapes: tokens [m] each, of `length`.
    """
    written = torch.cat([own + row * length for row, own in enumerate(tokens)])
    spans = _alike(tokens)
    if len(spans) == 1 or not is_padded:
        return Layout(spans=spans, read=written, kept=None, written=written)
    most = max(map(len, tokens))
    padded = [functional.pad(own, (0, most - len(own))) for own in tokens]  # by the first token
    kept = [
        torch.arange(row * most, row * most + len(own), device=own.device)
        for row, own in enumerate(tokens)
    ]
    return Layout(
        spans=[RowSpan(0, len(tokens), most)],
        read=torch.cat([own + row * length for row, own in enumerate(padded)]),
        kept=torch.cat(kept),
        written=written,
    )


def _alike(tokens: Sequence[Tensor]) -> list[RowSpan]:
    """Put the rows of one edit together: neighbours that share their tokens."""
    spans: list[RowSpan] = []
    for row, own in enumerate(tokens):
        if row and own is tokens[row - 1]:
            spans[-1] = RowSpan(spans[-1].begin, row + 1, len(own))
        else:
            spans.append(RowSpan(row, row + 1, len(own)))
    return spans
