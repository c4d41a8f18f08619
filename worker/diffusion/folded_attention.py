"""Attention over 256 equal padding tokens at the cost of one.

Without T5 the stock pipeline appends 256 zero tokens to every caption. Caption tokens have no
positions, so these stay equal in every layer: one does for all if its attention weights count
256 times, that is with log 256 added to its logits. Exact, and most of the work of small pictures.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from worker.diffusion.stock import Module

#: Zero tokens that the stock pipeline appends to a caption if there is no T5.
EMPTY_TOKENS = 256


class FoldedAttention:
    """Joint attention whose last caption token stands for `EMPTY_TOKENS` equal ones.

    Captions that have all of them are attended to as they are.
    """

    def __init__(self, stock: Module) -> None:
        """Take the place of a stock attention processor, which still does pictures alone."""
        self._stock = stock

    def __call__(
        self,
        attn: Module,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: None = None,
    ) -> tuple[Tensor, Tensor] | Tensor:
        """Attend. Shapes: picture [B, N, C], caption [B, T, C] -> the same."""
        picture, caption = hidden_states, encoder_hidden_states
        if caption is None or not is_folded(caption):
            whole: tuple[Tensor, Tensor] | Tensor = self._stock(attn, picture, caption)
            return whole
        of_picture = (attn.to_q(picture), attn.to_k(picture), attn.to_v(picture))
        of_caption = (attn.add_q_proj(caption), attn.add_k_proj(caption), attn.add_v_proj(caption))
        q, k, v = (_heads(each, attn.heads) for each in of_picture)
        caption_q, caption_k, caption_v = (_heads(each, attn.heads) for each in of_caption)
        q = torch.cat([_norm(attn.norm_q, q), _norm(attn.norm_added_q, caption_q)], dim=2)
        k = torch.cat([_norm(attn.norm_k, k), _norm(attn.norm_added_k, caption_k)], dim=2)
        v = torch.cat([v, caption_v], dim=2)
        mixed = self.attend(q, k, v, _extra_logits(k)).transpose(1, 2).flatten(2)
        picture, caption = mixed[:, : picture.shape[1]], mixed[:, picture.shape[1] :]
        if not attn.context_pre_only:
            caption = attn.to_add_out(caption)
        return attn.to_out[0](picture), caption

    def attend(self, q: Tensor, k: Tensor, v: Tensor, extra: Tensor) -> Tensor:
        """Mix values. Shapes: q, k, v [B, H, N + T, D], extra logits [N + T] -> [B, H, N + T, D]"""
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=extra[None])


def is_folded(caption: Tensor) -> bool:
    """Tell whether the last token of a caption stands for many. Shapes: [B, T, C]."""
    return caption.shape[1] < EMPTY_TOKENS


def _heads(channels: Tensor, heads: int) -> Tensor:
    return channels.view(*channels.shape[:2], heads, -1).transpose(1, 2)


def _norm(norm: Module | None, heads: Tensor) -> Tensor:
    normed: Tensor = heads if norm is None else norm(heads)
    return normed


def _extra_logits(keys: Tensor) -> Tensor:
    """Shapes: [B, H, N + T, D] -> [N + T]"""
    extra = torch.zeros(keys.shape[2], dtype=keys.dtype, device=keys.device)
    extra[-1] = math.log(EMPTY_TOKENS)
    return extra
