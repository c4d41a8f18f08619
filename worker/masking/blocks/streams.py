"""Run a batch of full and masked rows through a block of picture and caption tokens.

Rows of one edit go together, edits one by one, and the rows that run in full in one call. Captions
are computed in full, but for those that the template was told too: its own serve.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from worker.masking.blocks.keys import KeptKeys, has_keys
from worker.masking.blocks.rows import MaskedRow, caption_of, numbered, put, rest_of

#: Runs a block for some rows and some picture tokens of them, None being all, says whether the
#: caption must be made too, and what is kept of the keys, if they are. Gives the caption, if it is
#: made, and the picture tokens computed.
Run = Callable[[slice | Tensor, Tensor | None, bool, KeptKeys | None], tuple[Tensor | None, Tensor]]


def cut_streams(
    run: Run, masked: dict[int, MaskedRow], name: str, picture: Tensor, caption: Tensor
) -> tuple[tuple[Tensor | None, Tensor], Tensor]:
    """Compute a block's output: rows in full, the others under their masks.

    Gives what the block returns, and again the picture tokens in it.
    Shapes: picture [B, L, C], caption [B, T, C].
    """
    batch, length = picture.shape[:2]
    pictures, captions = torch.empty_like(picture), torch.empty_like(caption)
    is_last = False  # its caption is made by none
    for rows, row in _alike(masked):
        tokens, known = row.tokens(length), _known_caption(row, name, length)
        kept = KeptKeys(row.cached, name) if has_keys(row.cached, name) else None
        of_caption, computed = run(rows, tokens, known is None, kept)
        of_caption = known if known is not None else of_caption
        # With the keys kept, nobody reads the other tokens: they stay as they came, and finite.
        if kept is None:
            put([row] * computed.shape[0], name, pictures[rows])
        else:
            pictures[rows] = picture[rows]
        pictures[rows].index_copy_(1, tokens, computed)
        if of_caption is None:
            is_last = True
        else:
            captions[rows] = of_caption
    if others := rest_of(masked, batch):
        rest = numbered(tuple(others), picture.device)
        of_caption, pictures[rest] = run(rest, None, True, None)
        if of_caption is not None:
            captions[rest] = of_caption
    return (None if is_last else captions, pictures), pictures


def _known_caption(row: MaskedRow, name: str, length: int) -> Tensor | None:
    """Give what the block made of the caption, if the template was told the same. Shapes: [T, C].

    A row of which all is new takes nothing from its template.
    """
    if not row.is_told_alike or len(row.tokens(length)) == length:
        return None
    return row.cached.get(caption_of(name))


def _alike(masked: dict[int, MaskedRow]) -> list[tuple[slice, MaskedRow]]:
    """Put the rows of one edit together: neighbours that share mask and template."""
    spans: list[tuple[slice, MaskedRow]] = []
    for at, row in masked.items():
        if spans and spans[-1][1] is row and spans[-1][0].stop == at:
            spans[-1] = (slice(spans[-1][0].start, at + 1), row)
        else:
            spans.append((slice(at, at + 1), row))
    return spans
