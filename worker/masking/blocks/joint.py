"""Masked forward pass of an SD3 joint block: compute a subset of picture tokens.

The block runs as it is, on the masked tokens alone, but for its attention: keys and values are
those of all tokens.
"""

from functools import partial

from torch import Tensor

from worker.diffusion.stock import Argument, Module
from worker.masking.blocks.attention import JOINT_KWARGS, WIDEN, Widen, Widened, attentions
from worker.masking.blocks.cut import Cut, Cuts
from worker.masking.blocks.keys import Filled, KeptKeys
from worker.masking.blocks.rows import MaskedRow, Whole
from worker.masking.blocks.streams import cut_streams


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

    def run(
        rows: slice | Tensor, tokens: Tensor | None, is_caption_made: bool, kept: KeptKeys | None
    ) -> tuple[Tensor | None, Tensor]:
        picture, caption, time = hidden_states[rows], encoder_hidden_states[rows], temb[rows]
        answer: tuple[Tensor | None, Tensor]
        if tokens is None:
            answer = whole(
                hidden_states=picture, encoder_hidden_states=caption, temb=time, **kwargs
            )
            return answer
        # After the last block nobody reads the caption. Stock processors want one token that asks.
        is_asking = is_caption_made and not block.context_pre_only
        captions = None if is_asking else _normed(block, caption, time)
        if kept is None:
            widen = _widen(block, picture, captions, time)
        else:
            widen = _fill(block, kept, tokens, captions)
        answer = whole(
            hidden_states=picture.index_select(1, tokens),
            encoder_hidden_states=caption if is_asking else caption[:, :1],
            temb=time,
            **kwargs | {JOINT_KWARGS: {WIDEN: widen}},
        )
        return answer

    return cut_streams(run, masked, name, hidden_states, encoder_hidden_states)


def _normed(block: Module, caption: Tensor, time: Tensor) -> Tensor:
    """Norm the caption as a block does. Shapes: [R, T, C], time [R, C] -> [R, T, C]."""
    normed: Tensor
    if block.context_pre_only:
        normed = block.norm1_context(caption, time)
    else:
        normed, *_ = block.norm1_context(caption, emb=time)
    return normed


def _widen(
    block: Module, picture: Tensor, captions: Tensor | None, time: Tensor
) -> dict[str, Widen]:
    """Have the block's attentions answered by all tokens of some rows.

    Shapes: picture [R, L, C], captions [R, T, C] where few of them ask, time [R, C].
    """
    normed = block.norm1(picture, emb=time)
    # The first is for joint attention, the sixth for the picture's own, where there is one.
    return {
        name: partial(Widened, states=normed[at], captions=captions)
        for name, at in zip(attentions(block), (0, 5), strict=False)
    }


def _fill(
    block: Module, kept: KeptKeys, tokens: Tensor, captions: Tensor | None
) -> dict[str, Widen]:
    """Have the block's attentions answered by what is kept, but for the tokens that ask.

    Shapes: tokens [M], captions [R, T, C] where few of them ask.
    """
    return {
        name: partial(Filled, kept=kept, name=name, tokens=tokens, captions=captions)
        for name in attentions(block)
    }


JOINT_CUTS: Cuts = {"JointTransformerBlock": Cut(run=cut_joint_block)}
