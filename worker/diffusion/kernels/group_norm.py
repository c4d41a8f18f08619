"""Group norm of features whose channels come last, in three Triton kernels.

Torch has one for channels that come first: it copies such features into that order and back, which
with its own passes takes a quarter of a step of SDXL on an H100, and four fifths of its decoder
(`docs/gpu.md`). A row is summed up in an order that depends on its own size alone.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Tokens and channels that a program has in registers at a time.
_TOKENS, _CHANNELS = 32, 128
#: Programs that share the tokens of a row, at most; and tokens that are worth one.
_MOST_PARTS, _LEAST_TOKENS = 2048, 64
#: Numbers that a program reads at a time to put parts together.
_TOGETHER = 4096


@triton.jit
def _measure(
    given, means, spreads, length, channels, each, TOKENS: tl.constexpr, CHANNELS: tl.constexpr
):
    """Sum up some tokens of a row, channel by channel: their mean, and squares around it."""
    row, part = tl.program_id(0), tl.program_id(1)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    is_channel = channel < channels
    begin = part * each
    end = tl.minimum(begin + each, length)
    first = given + row.to(tl.int64) * length * channels + channel
    # Squares of large numbers would lose what they differ by, so the first token is taken off all.
    pivot = tl.load(first + begin * channels, mask=is_channel, other=0.0).to(tl.float32)
    total = tl.zeros([CHANNELS], tl.float32)
    squares = tl.zeros([CHANNELS], tl.float32)
    for at in range(begin, end, TOKENS):
        token = at + tl.arange(0, TOKENS)
        is_there = (token < end)[:, None] & is_channel[None, :]
        seen = tl.load(first[None, :] + token[:, None] * channels, mask=is_there, other=0.0)
        moved = tl.where(is_there, seen.to(tl.float32) - pivot[None, :], 0.0)
        total += tl.sum(moved, axis=0)
        squares += tl.sum(moved * moved, axis=0)
    count = (end - begin).to(tl.float32)
    to = (row * tl.num_programs(1) + part) * channels + channel
    tl.store(means + to, pivot + total / count, mask=is_channel)
    tl.store(spreads + to, squares - total * total / count, mask=is_channel)


@triton.jit
def _sum_up(
    means, spreads, weight, bias, slopes, offsets, eps, count, length, channels, each, parts, width,
    PARTS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Put the parts of one group of a row together: slopes and offsets of its channels."""
    row, group = tl.program_id(0), tl.program_id(1)
    number = tl.arange(0, WIDTH)
    channel = group * width + number
    is_channel = number < width
    total = 0.0
    for begin in range(0, parts, PARTS):
        part = begin + tl.arange(0, PARTS)
        is_there = (part < parts)[:, None] & is_channel[None, :]
        at = (row * parts + part)[:, None] * channels + channel[None, :]
        tokens = tl.minimum(each, length - part * each).to(tl.float32)[:, None]
        mean = tl.load(means + at, mask=is_there, other=0.0)
        total += tl.sum(tl.where(is_there, mean * tokens, 0.0))
    middle = total / count
    squares = 0.0
    for begin in range(0, parts, PARTS):
        part = begin + tl.arange(0, PARTS)
        is_there = (part < parts)[:, None] & is_channel[None, :]
        at = (row * parts + part)[:, None] * channels + channel[None, :]
        tokens = tl.minimum(each, length - part * each).to(tl.float32)[:, None]
        apart = tl.load(means + at, mask=is_there, other=0.0) - middle
        own = tl.load(spreads + at, mask=is_there, other=0.0)
        squares += tl.sum(tl.where(is_there, own + tokens * apart * apart, 0.0))
    inverse = 1.0 / tl.sqrt(squares / count + eps)
    slope = tl.load(weight + channel, mask=is_channel, other=0.0).to(tl.float32) * inverse
    offset = tl.load(bias + channel, mask=is_channel, other=0.0).to(tl.float32) - middle * slope
    tl.store(slopes + row * channels + channel, slope, mask=is_channel)
    tl.store(offsets + row * channels + channel, offset, mask=is_channel)


@triton.jit
def _apply(
    given, slopes, offsets, made, length, channels, TOKENS: tl.constexpr, CHANNELS: tl.constexpr
):
    """Multiply and move the channels of some tokens of a row."""
    row = tl.program_id(2)
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    is_channel = channel < channels
    is_there = (token < length)[:, None] & is_channel[None, :]
    at = row.to(tl.int64) * length * channels + token[:, None] * channels + channel[None, :]
    slope = tl.load(slopes + row * channels + channel, mask=is_channel, other=0.0)
    offset = tl.load(offsets + row * channels + channel, mask=is_channel, other=0.0)
    seen = tl.load(given + at, mask=is_there, other=0.0).to(tl.float32)
    normed = seen * slope[None, :] + offset[None, :]
    tl.store(made + at, normed.to(made.dtype.element_ty), mask=is_there)


def group_norm(given: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Norm each group of channels of each row, as torch's `group_norm` does.

    Shapes: [B, C, ...] with the channels last in memory -> the same, in the same order.
    """
    rows, channels = given.shape[:2]
    length = math.prod(given.shape[2:])
    each = max(_LEAST_TOKENS, triton.cdiv(length, _MOST_PARTS))
    parts = triton.cdiv(length, each)
    width = channels // groups
    padded_width = triton.next_power_of_2(width)
    means, spreads = torch.empty((2, rows, parts, channels), device=given.device).unbind()
    slopes, offsets = torch.empty((2, rows, channels), device=given.device).unbind()
    made = torch.empty_like(given)
    blocks = triton.cdiv(channels, _CHANNELS)
    tile = {"TOKENS": _TOKENS, "CHANNELS": _CHANNELS}
    _measure[rows, parts, blocks](given, means, spreads, length, channels, each, **tile)
    _sum_up[rows, groups](
        means, spreads, weight, bias, slopes, offsets, eps, float(length * width), length, channels,
        each, parts, width,
        PARTS=max(1, _TOGETHER // padded_width), WIDTH=padded_width,
    )  # fmt: skip
    tokens = triton.cdiv(length, _TOKENS)
    _apply[tokens, blocks, rows](given, slopes, offsets, made, length, channels, **tile)
    return made
