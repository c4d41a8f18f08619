"""Masked forward pass of a UNet transformer block: compute a subset of tokens.

Queries, the attention's output and the feed-forward see masked tokens alone; keys and values come
from all tokens; what is left of the output is the template's (InstGenIE, section 3.1). Tokens of
all rows are packed, so masks of any sizes share a batch without padding; attention goes row by row.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from worker.diffusion.stock import Argument, Module
from worker.masking.blocks.cut import Cut, Cuts
from worker.masking.blocks.rows import MaskedRow, Whole, rest_of, select


def cut_unet_block(
    whole: Whole,
    block: Module,
    masked: dict[int, MaskedRow],
    name: str,
    hidden: Tensor,
    **kwargs: Argument,
) -> tuple[Tensor, Tensor]:
    """Compute the block's output: rows in full by `whole`, the others under their masks.

    Gives what the block returns, and again what is to be recorded of it.
    Shapes: hidden [B, L, C] -> the same, twice.
    """
    batch = len(hidden)
    cut = torch.tensor(list(masked), device=hidden.device)
    text = select(kwargs["encoder_hidden_states"], cut, batch)
    out = torch.empty_like(hidden)
    out[cut] = forward_masked(block, hidden[cut], text, list(masked.values()), name)
    if rest := rest_of(masked, batch):
        others = torch.tensor(rest, device=hidden.device)
        parts = {key: select(value, others, batch) for key, value in kwargs.items()}
        out[others] = whole(hidden[others], **parts)
    return out, out


def forward_masked(
    block: Module, hidden: Tensor, text: Argument, rows: Sequence[MaskedRow], name: str
) -> Tensor:
    """Compute the masked tokens of each row, and take the others from the template.

    Shapes: hidden [R, L, C], text [R, T, D] -> [R, L, C].
    """
    length = hidden.shape[1]
    tokens = [row.tokens(length) for row in rows]
    counts = [len(each) for each in tokens]
    at = torch.cat([each + row * length for row, each in enumerate(tokens)])
    normed = block.norm1(hidden)
    packed = hidden.flatten(0, 1)[at]
    packed = packed + _attend(block.attn1, normed.flatten(0, 1)[at], normed, counts)
    if block.attn2 is not None:
        packed = packed + _attend(block.attn2, block.norm2(packed), text, counts)
    packed = packed + block.ff(block.norm3(packed))
    out = torch.stack([row.cached[name] for row in rows]).to(hidden.dtype)
    out.flatten(0, 1)[at] = packed
    return out


def _attend(attention: Module, queries: Tensor, states: Tensor, counts: Sequence[int]) -> Tensor:
    """Attend from packed queries to the states of their own row.

    Shapes: queries [sum of counts, C], states [R, S, D] -> [sum of counts, C].
    """
    keys, values = (
        projected.unflatten(-1, (attention.heads, -1)).transpose(1, 2)
        for projected in (attention.to_k(states), attention.to_v(states))
    )
    asked = attention.to_q(queries).unflatten(-1, (attention.heads, -1)).transpose(0, 1)
    found = [
        scaled_dot_product_attention(of_row[None], keys[row : row + 1], values[row : row + 1])[0]
        for row, of_row in enumerate(asked.split(list(counts), dim=1))
    ]
    out: Tensor = attention.to_out[0](torch.cat(found, dim=1).transpose(0, 1).flatten(1))
    return out


def can_cut_unet_block(block: Module) -> bool:
    """Tell whether a block is a plain one: norms without conditioning, attention as in SDXL."""
    attentions = [block.attn1, *([block.attn2] if block.attn2 is not None else [])]
    return (
        block.norm_type == "layer_norm"
        and block.pos_embed is None
        and not block.only_cross_attention
        and not hasattr(block, "fuser")
        and all(
            each.norm_q is None
            and each.group_norm is None
            and not each.residual_connection
            and each.rescale_output_factor == 1
            for each in attentions
        )
    )


UNET_CUTS: Cuts = {
    "BasicTransformerBlock": Cut(run=cut_unet_block, has_keys=False, fits=can_cut_unet_block)
}
