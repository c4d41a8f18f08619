"""Position embeddings of the transformer for pictures of any side."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from diffusers import SD3Transformer2DModel
from diffusers.models.embeddings import get_1d_sincos_pos_embed_from_grid
from torch import Tensor

#: Tokens a side of the pictures that shapes-dit was trained on.
TOKENS = 8

#: Where its embeddings begin, and how far each is from the next, in stock's units.
_FIRST, _STEP = 2.0, 0.5


def positions(tokens: int, channels: int) -> Tensor:
    """Give the embeddings of a square of so many tokens a side, over the span that 8 have.

    A token that is a half as wide stands at the two quarters of the one whose place it takes.
    Shapes: returns [1, tokens * tokens, channels].
    """
    places = (torch.arange(tokens, dtype=torch.float64) + 0.5) * TOKENS / tokens - 0.5
    line = get_1d_sincos_pos_embed_from_grid(
        channels // 2, _FIRST + _STEP * places, output_type="pt"
    )
    across, down = line[None].expand(tokens, -1, -1), line[:, None].expand(-1, tokens, -1)
    return torch.cat([across, down], dim=-1).reshape(1, tokens * tokens, channels).float()


def rescale(model: SD3Transformer2DModel, tokens: int) -> None:
    """Set a model's embeddings for pictures of so many tokens a side."""
    patches = model.pos_embed
    patches.pos_embed = positions(tokens, patches.pos_embed.shape[-1])
    patches.pos_embed_max_size = tokens


@contextmanager
def rescaled(model: SD3Transformer2DModel, tokens: int) -> Iterator[None]:
    """Set a model's embeddings for a while."""
    patches = model.pos_embed
    kept = patches.pos_embed, patches.pos_embed_max_size
    rescale(model, tokens)
    try:
        yield
    finally:
        patches.pos_embed, patches.pos_embed_max_size = kept
