"""Group norms over a crop, with recorded mean and deviation.

A few numbers for each norm: they are recorded beside the outputs of the blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor
from torch.nn import GroupNorm

from worker.diffusion.stock import Module, hook_forward
from worker.masking.blocks.rows import RecordedRow, Row, Whole


class Norms:
    """The group norms of one block of convolutions."""

    def __init__(self, block_name: str, block: Module) -> None:
        """Hook each of them; told nothing, it norms by what it sees."""
        self.names: list[str] = []
        self._given: Mapping[str, Tensor] = {}
        self._rows: Sequence[Row] = ()
        for part, module in block.named_modules():
            if isinstance(module, GroupNorm):
                name = f"{block_name}.{part}"
                hook_forward(module, "crop", partial(self._forward, name))
                self.names.append(name)

    @contextmanager
    def given(self, statistics: Mapping[str, Tensor]) -> Iterator[None]:
        """Norm by these, of each row. Shapes: [R, 2 groups, 1]."""
        self._given = statistics
        try:
            yield
        finally:
            self._given = {}

    @contextmanager
    def recording(self, rows: Sequence[Row]) -> Iterator[None]:
        """Record what is seen of some of these rows."""
        self._rows = rows
        try:
            yield
        finally:
            self._rows = ()

    def _forward(self, name: str, whole: Whole, norm: Module, hidden: Tensor) -> Tensor:
        for row, own in zip(self._rows, hidden, strict=False):
            if isinstance(row, RecordedRow):
                row.outputs[name] = statistics_of(own, norm.num_groups)
        if name in self._given:
            return normed_by(self._given[name], norm, hidden)
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
