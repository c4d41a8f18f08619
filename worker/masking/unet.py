"""How does a transformer block of a UNet compute some tokens of some rows, and the rest not at all?

Queries, the attention's output and the feed-forward see masked tokens alone; keys and values come
from all tokens; what is left of the output is the template's (InstGenIE, section 3.1). Tokens of
all rows are packed, so masks of any sizes share a batch without padding; attention goes row by row.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from worker.masking.rows import MaskedRow, RecordedRow, Row, select
from worker.stock import Argument, Module, TransformerBlock, hook_forward

#: A block's own forward pass.
Whole = Callable[..., Tensor]


class MaskedBlocks:
    """The transformer blocks of one UNet, which ask here how to treat each row."""

    def __init__(self, unet: Module) -> None:
        """Hook every block that a mask can cut; others always run in full."""
        self.rows: Sequence[Row] = ()  #: of the forward pass at hand; empty is none of interest
        self.names: list[str] = []  #: of the hooked blocks, in the order of the modules
        for name, module in unet.named_modules():
            if isinstance(module, TransformerBlock) and _can_be_cut(module):
                hook_forward(module, "masking", Cut(self, name))
                self.names.append(name)


class Cut:
    """Runs one block."""

    def __init__(self, blocks: MaskedBlocks, name: str) -> None:
        self._blocks = blocks
        self._name = name

    def __call__(self, whole: Whole, block: Module, hidden: Tensor, **kwargs: Argument) -> Tensor:
        """Compute the block's output: rows in full by `whole`, the others under their masks.

        Shapes: hidden [B, L, C] -> the same.
        """
        rows = self._blocks.rows
        masked = {
            at: row
            for at, row in enumerate(rows)
            if isinstance(row, MaskedRow) and self._name in row.cached
        }
        out = self._mixed(masked, whole, block, hidden, kwargs)
        for row, output in zip(rows, out, strict=False):
            if isinstance(row, RecordedRow):
                row.outputs[self._name] = output
        return out

    def _mixed(
        self,
        masked: dict[int, MaskedRow],
        whole: Whole,
        block: Module,
        hidden: Tensor,
        kwargs: dict[str, Argument],
    ) -> Tensor:
        if not masked:
            return whole(hidden, **kwargs)
        batch = len(hidden)
        cut = torch.tensor(list(masked), device=hidden.device)
        text = select(kwargs["encoder_hidden_states"], cut, batch)
        cut_out = forward_masked(block, hidden[cut], text, list(masked.values()), self._name)
        if len(masked) == batch:
            return cut_out
        others = [at for at in range(batch) if at not in masked]
        rest = torch.tensor(others, device=hidden.device)
        parts = {name: select(value, rest, batch) for name, value in kwargs.items()}
        out = torch.empty_like(hidden)
        out[rest] = whole(hidden[rest], **parts)
        out[cut] = cut_out
        return out


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


def _can_be_cut(block: Module) -> bool:
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
