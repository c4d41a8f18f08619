"""Add int8 numbers, each token's by a scale of its own, to other numbers, in one Triton kernel.

Torch converts numbers of several precisions one by one: an edit that takes its template's outputs
waited for that as long as for its convolutions.
"""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _add(
    base, values, scales, made, sign, length, channels, HAS_BASE: tl.constexpr, WIDTH: tl.constexpr
):
    """Make one token of one row."""
    token, row = tl.program_id(0), tl.program_id(1)
    channel = tl.arange(0, WIDTH)
    is_channel = channel < channels
    scale = tl.load(scales + token) * sign
    own = tl.load(values + token * channels + channel, mask=is_channel, other=0).to(tl.float32)
    found = own * scale
    at = row.to(tl.int64) * length * channels + token * channels + channel
    if HAS_BASE:
        found += tl.load(base + at, mask=is_channel, other=0.0).to(tl.float32)
    tl.store(made + at, found.to(made.dtype.element_ty), mask=is_channel)


def scaled_sum(
    base: Tensor | None, values: Tensor, scales: Tensor, into: Tensor, sign: float = 1.0
) -> None:
    """Write `base + sign * values * scales`, or without `base`.

    Shapes: base and into [R, L, C] or [L, C], values int8 [L, C], scales float32 [L, 1]; all of
    them contiguous.
    """
    length, channels = values.shape
    rows = into.numel() // values.numel()
    width = triton.next_power_of_2(channels)
    _add[length, rows](
        into if base is None else base, values, scales, into, sign, length, channels,
        HAS_BASE=base is not None, WIDTH=width,
    )  # fmt: skip
