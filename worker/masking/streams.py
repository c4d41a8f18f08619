"""How do the rows of a batch go through a block of picture and caption, some of them in part?

Rows of one edit go together, edits one by one, and the rows that run in full in one call. Caption
tokens are computed in full.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from worker.masking.rows import MaskedRow, rest_of

#: Runs a block for some rows and some picture tokens of them, None being all; gives the caption,
#: which the last block has no use for, and the tokens computed.
Run = Callable[[slice | Tensor, Tensor | None], tuple[Tensor | None, Tensor]]


def cut_streams(
    run: Run, masked: dict[int, MaskedRow], name: str, picture: Tensor, caption: Tensor
) -> tuple[tuple[Tensor | None, Tensor], Tensor]:
    """Compute a block's output: rows in full, the others under their masks.

    Gives what the block returns, and again the picture tokens in it.
    Shapes: picture [B, L, C], caption [B, T, C].
    """
    batch, length = picture.shape[:2]
    pictures, captions = torch.empty_like(picture), torch.empty_like(caption)
    has_caption = True
    parts: list[tuple[slice | Tensor, MaskedRow | None]] = [*_alike(masked)]
    if others := rest_of(masked, batch):
        parts.append((torch.tensor(others, device=picture.device), None))
    for rows, row in parts:
        tokens = None if row is None else row.tokens(length)
        of_caption, computed = run(rows, tokens)
        if row is None or tokens is None:
            pictures[rows] = computed
        else:
            pictures[rows] = row.cached[name].to(pictures.dtype)
            pictures[rows].index_copy_(1, tokens, computed)
        has_caption = of_caption is not None
        if of_caption is not None:
            captions[rows] = of_caption
    return (captions if has_caption else None, pictures), pictures


def _alike(masked: dict[int, MaskedRow]) -> list[tuple[slice, MaskedRow]]:
    """Put the rows of one edit together: neighbours that share mask and template."""
    spans: list[tuple[slice, MaskedRow]] = []
    for at, row in masked.items():
        if spans and spans[-1][1] is row and spans[-1][0].stop == at:
            spans[-1] = (slice(spans[-1][0].start, at + 1), row)
        else:
            spans.append((slice(at, at + 1), row))
    return spans
