"""Masked forward pass of a Flux block: compute a subset of picture tokens.

Like `joint`, and each token is rotated by its own position: positions of the masked tokens are
gathered for their queries, keys keep those of all. The first blocks hold picture and caption
apart, the others hold them in one.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from worker.diffusion.stock import Argument, Module, rotate
from worker.masking.blocks.attention import JOINT_KWARGS, WIDEN, Attention, Widen, Widened
from worker.masking.blocks.cut import Cut, Cuts
from worker.masking.blocks.keys import Filled, KeptKeys
from worker.masking.blocks.rows import MaskedRow, Whole
from worker.masking.blocks.streams import cut_streams

#: Cosines and sines of tokens, the caption's first, [T + L, D] each.
Places = tuple[Tensor, Tensor]


class Placed(Attention):
    """An attention that turns queries and keys itself, as their tokens differ."""

    def __init__(
        self,
        attention: Attention,
        *,
        asking: Places,
        answering: Places,
        caption: Places,
    ) -> None:
        super().__init__(attention)
        self._asking = asking
        self._answering = answering
        self._of_caption = caption

    def norm_q(self, heads: Tensor) -> Tensor:
        """Norm and turn queries. Shapes: [R, M, H, D]."""
        return rotate(self._attention.norm_q(heads), self._asking)

    def norm_k(self, heads: Tensor) -> Tensor:
        """Norm and turn keys. Shapes: [R, L, H, D]."""
        return rotate(self._attention.norm_k(heads), self._answering)

    def norm_added_q(self, heads: Tensor) -> Tensor:
        """Norm and turn queries of the caption. Shapes: [R, T, H, D]."""
        return rotate(self._attention.norm_added_q(heads), self._of_caption)

    def norm_added_k(self, heads: Tensor) -> Tensor:
        """Norm and turn keys of the caption. Shapes: [R, T, H, D]."""
        return rotate(self._attention.norm_added_k(heads), self._of_caption)


def cut_flux_block(
    whole: Whole,
    block: Module,
    masked: dict[int, MaskedRow],
    name: str,
    *,
    hidden_states: Tensor,
    encoder_hidden_states: Tensor,
    temb: Tensor,
    image_rotary_emb: Places,
    **kwargs: Argument,
) -> tuple[tuple[Tensor | None, Tensor], Tensor]:
    """Compute the block's output: rows in full by `whole`, the others under their masks.

    Gives what the block returns, and again the picture tokens in it.
    Shapes: hidden_states [B, L, C], encoder_hidden_states [B, T, C], temb [B, C],
            image_rotary_emb [T + L, D] twice.
    """

    def run(
        rows: slice | Tensor, tokens: Tensor | None, is_caption_made: bool, kept: KeptKeys | None
    ) -> tuple[Tensor | None, Tensor]:
        del is_caption_made  # always: an edit's only row has a prompt that no template was told
        picture, caption, time = hidden_states[rows], encoder_hidden_states[rows], temb[rows]
        answer: tuple[Tensor, Tensor]
        if tokens is None:
            answer = whole(
                hidden_states=picture,
                encoder_hidden_states=caption,
                temb=time,
                image_rotary_emb=image_rotary_emb,
                **kwargs,
            )
            return answer
        widen = (
            _widen(block, picture, caption, time)
            if kept is None
            else partial(Filled, kept=kept, name="attn", tokens=tokens)
        )
        place = _place(block, caption.shape[1], image_rotary_emb, tokens)
        placed = {"attn": lambda attention: place(widen(attention))}
        answer = whole(
            hidden_states=picture.index_select(1, tokens),
            encoder_hidden_states=caption,
            temb=time,
            **kwargs | {JOINT_KWARGS: {WIDEN: placed}},
        )
        return answer

    return cut_streams(run, masked, name, hidden_states, encoder_hidden_states)


def _widen(block: Module, picture: Tensor, caption: Tensor, time: Tensor) -> Widen:
    """Have a block's attention answered by all tokens.

    Shapes: picture [R, L, C], caption [R, T, C], time [R, C].
    """
    if hasattr(block, "norm1_context"):
        states = block.norm1(picture, emb=time)[0]
    else:
        states = block.norm(torch.cat([caption, picture], dim=1), emb=time)[0]
    return partial(Widened, states=states)


def _place(block: Module, length: int, places: Places, tokens: Tensor) -> Callable[..., Placed]:
    """Have a block's attention turn tokens by their places, behind a caption of some length.

    Shapes: tokens [M].
    """
    of_caption, of_picture = _pick(places, slice(length)), _pick(places, slice(length, None))
    if hasattr(block, "norm1_context"):
        asking, answering = _pick(of_picture, tokens), of_picture
    else:
        both = torch.cat([torch.arange(length, device=tokens.device), length + tokens])
        asking, answering = _pick(places, both), places
    return partial(Placed, asking=asking, answering=answering, caption=of_caption)


def _pick(places: Places, tokens: slice | Tensor) -> Places:
    cosines, sines = places
    return cosines[tokens], sines[tokens]


FLUX_CUTS: Cuts = dict.fromkeys(
    ("FluxTransformerBlock", "FluxSingleTransformerBlock"), Cut(run=cut_flux_block)
)
