"""GELU of one half of some channels, times the other half, in one Triton kernel.

Torch takes two passes, over halves that lie apart in memory.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_CHANNELS = 1024  #: that a program makes


@triton.jit
def _gate(given, made, channels, CHANNELS: tl.constexpr):
    """Make some channels of one token."""
    token = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    is_channel = channel < channels
    at = given + token * 2 * channels + channel
    hidden = tl.load(at, mask=is_channel, other=0.0)
    gate = tl.load(at + channels, mask=is_channel, other=0.0).to(tl.float32)
    opened = gate * 0.5 * (1.0 + tl.math.erf(gate * 0.7071067811865476))
    opened = opened.to(hidden.dtype).to(tl.float32)  # as torch rounds between its passes
    tl.store(made + token * channels + channel, (hidden * opened).to(hidden.dtype), mask=is_channel)


def gated(given: Tensor) -> Tensor:
    """Give the first half of the channels, each times GELU of its counterpart in the second.

    Shapes: [..., 2 C], contiguous -> [..., C].
    """
    channels = given.shape[-1] // 2
    made = torch.empty((*given.shape[:-1], channels), dtype=given.dtype, device=given.device)
    tokens = made.numel() // channels
    _gate[tokens, triton.cdiv(channels, _CHANNELS)](given, made, channels, CHANNELS=_CHANNELS)
    return made
