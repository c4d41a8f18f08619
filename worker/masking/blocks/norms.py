"""Group norms over a crop, with recorded mean and deviation.

A few numbers for each norm: they are recorded beside the outputs of the blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import GroupNorm

from worker.diffusion.forward_context import ContextPart, ForwardContext, HookedModel
from worker.diffusion.stock import Module
from worker.masking.blocks.rows import RecordedRow, Whole, rows_of


@dataclass(frozen=True, slots=True, eq=False)
class GivenStatistics(ContextPart):
    """By what the norms of a block norm a crop, in place of what they see."""

    of: Mapping[str, Tensor]  #: by norm, for each row, [R, 2 groups, 1]


def hook_norms(hooked: HookedModel, block_name: str, block: Module) -> list[str]:
    """Hook each group norm of a block of convolutions; name them."""
    names = []
    for part, module in block.named_modules():
        if isinstance(module, GroupNorm):
            name = f"{block_name}.{part}"
            hooked.hook(module, "crop", partial(_forward, name))
            names.append(name)
    return names


def _forward(
    name: str, context: ForwardContext, whole: Whole, norm: Module, hidden: Tensor
) -> Tensor:
    """Norm by what is given, or seen; record what is seen of rows that are kept."""
    for row, own in zip(rows_of(context), hidden, strict=False):
        if isinstance(row, RecordedRow):
            row.outputs[name] = statistics_of(own, norm.num_groups)
    given = context.get(GivenStatistics)
    if given is not None:
        return normed_by(given.of[name], norm, hidden)
    out: Tensor = whole(hidden)
    return out


def statistics_of(hidden: Tensor, groups: int) -> Tensor:
    """Measure the mean of each group, and then its standard deviation.

    A value for each token, so to say: quantised, it keeps its precision.
    Shapes: [C, h, w] -> [2 groups, 1], single precision.
    """
    variance, mean = torch.var_mean(hidden.float().reshape(groups, -1), dim=1, correction=0)
    return torch.cat([mean, variance.sqrt()])[:, None]


def normed_by(statistics: Tensor, norm: Module, hidden: Tensor) -> Tensor:
    """Norm features by means and deviations of their groups.

    Shapes: statistics [R, 2 groups, 1], hidden [R, C, h, w] -> the same.
    """
    channels = norm.num_channels // norm.num_groups
    mean, deviation = statistics.repeat_interleave(channels, dim=1)[..., None].chunk(2, dim=1)
    weight, bias = norm.weight[:, None, None].float(), norm.bias[:, None, None].float()
    slope = weight / (deviation.clamp(min=0).square() + norm.eps).sqrt()
    return torch.addcmul((bias - mean * slope).to(hidden.dtype), hidden, slope.to(hidden.dtype))
