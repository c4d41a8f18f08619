"""Unfused attention of the transformer, for faster training on a CPU."""

from diffusers.models.attention_processor import JointAttnProcessor2_0
from torch import Tensor

from worker.diffusion.folded_attention import FoldedAttention


class PlainFoldedAttention(FoldedAttention):
    """Folded attention, not fused: on a CPU the backward pass of the fused one is slow.

    It trains on exactly what the stock pipeline shows the model, 256 empty tokens, for one.
    """

    def __init__(self) -> None:
        super().__init__(JointAttnProcessor2_0())

    def attend(self, q: Tensor, k: Tensor, v: Tensor, extra: Tensor) -> Tensor:
        """Mix values. Shapes: as the fused one."""
        logits = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2) + extra
        mixed: Tensor = logits.softmax(dim=-1).to(v.dtype) @ v
        return mixed
