"""Masked forward pass of a UNet transformer block: compute a subset of tokens.

Queries, the attention's output and the feed-forward see masked tokens alone; keys and values come
from all tokens; what is left of the output is the template's (InstGenIE, section 3.1). Tokens of
all rows are packed, so masks of any sizes share a batch. A CPU attends edit by edit; elsewhere all
rows do at once, padded to as many tokens, as a device waits for the host that starts its kernels.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from worker.diffusion.stock import Argument, Module
from worker.masking.blocks.cut import Cut, Cuts
from worker.masking.blocks.layout import RowSpan, lay_out
from worker.masking.blocks.rows import MaskedRow, Whole, numbered, put, rest_of, select


def cut_unet_block(
    whole: Whole,
    block: Module,
    masked: dict[int, MaskedRow],
    name: str,
    hidden: Tensor,
    *,
    is_padded: bool | None = None,
    **kwargs: Argument,
) -> tuple[Tensor, Tensor]:
    """Compute the block's output: rows in full by `whole`, the others under their masks.

    Gives what the block returns, and again what is to be recorded of it.
    `is_padded`: whether rows under masks attend at once; as the device likes it, unless told.
    Shapes: hidden [B, L, C] -> the same, twice.
    """
    batch, device, text = len(hidden), hidden.device, kwargs["encoder_hidden_states"]
    rows = list(masked.values())
    pads = device.type != "cpu" if is_padded is None else is_padded
    rest = rest_of(masked, batch)
    if not rest:
        out = forward_masked(block, hidden, text, rows, name, is_padded=pads)
        return out, out
    cut, others = numbered(tuple(masked), device), numbered(tuple(rest), device)
    out = torch.empty_like(hidden)
    text = select(text, cut, batch)
    out[cut] = forward_masked(block, hidden[cut], text, rows, name, is_padded=pads)
    parts = {key: select(value, others, batch) for key, value in kwargs.items()}
    out[others] = whole(hidden[others], **parts)
    return out, out


def forward_masked(
    block: Module,
    hidden: Tensor,
    text: Argument,
    rows: Sequence[MaskedRow],
    name: str,
    *,
    is_padded: bool,
) -> Tensor:
    """Compute the masked tokens of each row, and take the others from the template.

    Shapes: hidden [R, L, C], text [R, T, D] -> [R, L, C].
    """
    length = hidden.shape[1]
    layout = lay_out(tuple(row.tokens(length) for row in rows), length, is_padded=is_padded)
    normed = block.norm1(hidden)
    packed, queries = (
        each.reshape(-1, each.shape[-1]).index_select(0, layout.read) for each in (hidden, normed)
    )
    packed = packed + _attend(block.attn1, queries, normed, layout.spans)
    if block.attn2 is not None:
        packed = packed + _attend(block.attn2, block.norm2(packed), text, layout.spans)
    if layout.kept is not None:
        packed = packed.index_select(0, layout.kept)
    packed = packed + block.ff(block.norm3(packed))
    out = torch.empty_like(hidden, memory_format=torch.contiguous_format)
    put(rows, name, out)
    out.view(-1, out.shape[-1]).index_copy_(0, layout.written, packed)
    return out


def _attend(attention: Module, queries: Tensor, states: Tensor, spans: Sequence[RowSpan]) -> Tensor:
    """Attend from packed queries to the states of their own row.

    Shapes: queries [N, C], span after span, states [R, S, D] -> [N, C].
    """
    keys, values = attention.to_k(states), attention.to_v(states)
    asked = attention.to_q(queries)
    if len(spans) == 1:
        found = _ask(attention.heads, spans[0], asked, keys, values)
    else:
        split = asked.split([span.num_tokens for span in spans])
        found = torch.cat(
            [
                _ask(attention.heads, span, own, keys[span.rows], values[span.rows])
                for span, own in zip(spans, split, strict=True)
            ]
        )
    out: Tensor = attention.to_out[0](found)
    return out


def _ask(heads: int, span: RowSpan, asked: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend from the packed queries of one span.

    Shapes: asked [N, C], keys and values [R, S, C] -> [N, C].
    """
    rows, length, channels = keys.shape
    size = channels // heads
    found = scaled_dot_product_attention(
        asked.view(rows, span.asking, heads, size).transpose(1, 2),
        keys.view(rows, length, heads, size).transpose(1, 2),
        values.view(rows, length, heads, size).transpose(1, 2),
    )
    return found.transpose(1, 2).reshape(rows * span.asking, channels)


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
