"""Compute UNet convolutions in a bounding box around the mask only.

Beyond InstGenIE, which cuts transformer blocks alone. A block of convolutions runs as it is, on the
box and a halo that its kernels reach into; what surrounds the box is the template's. Its norms take
mean and deviation from the recording, as a box says little of the whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from worker.diffusion.forward_context import ForwardContext, HookedModel
from worker.diffusion.stock import Argument, Module, ResnetBlock, Upsample
from worker.masking.blocks.norms import GivenStatistics, hook_norms
from worker.masking.blocks.rows import (
    Box,
    EditRows,
    MaskedRow,
    RecordedRow,
    Row,
    Whole,
    numbered,
    rest_of,
    rows_of,
    select,
)

#: Share of a feature map from which a box with its halo is hardly cheaper than all of it.
_MOST = 0.75


class Reach(NamedTuple):
    """How the output of a block of convolutions lies over its input."""

    scale: int  #: cells of the output for one of the input, along a side
    halo: int  #: cells of the output around one that share input with it


class Crop(NamedTuple):
    """Where a block reads and writes."""

    size: tuple[int, int]  #: height and width of the output
    read: Box  #: of the input
    inner: Box  #: of what is made of that; around it padding was taken for cells
    write: Box  #: of the output

    @classmethod
    def around(cls, box: Box, size: Sequence[int], reach: Reach) -> "Crop":
        """Find what must be read to know a box of the output; `size` is that of the input."""
        scale, halo = reach
        read, inner = [], []
        for side, length in zip(box, size, strict=True):
            begin = max(0, (side.start - halo) // scale)
            end = min(length, -(-(side.stop + halo) // scale))
            read.append(slice(begin, end))
            inner.append(slice(side.start - begin * scale, side.stop - begin * scale))
        whole = (scale * size[0], scale * size[1])
        return cls(whole, (read[0], read[1]), (inner[0], inner[1]), box)

    def read_from(self, hidden: Tensor) -> Tensor:
        """Cut the input out. Shapes: [R, C, h, w] -> [R, C, ...]."""
        return hidden[(..., *self.read)]

    def put(self, made: Tensor, cached: Tensor) -> Tensor:
        """Put what was made of a crop into what was recorded.

        Shapes: made [R, D, ...], cached [R, D, H W] -> [R, D, H, W].
        """
        out: Tensor = cached.to(made.dtype).reshape(*cached.shape[:2], *self.size)
        out[(..., *self.write)] = made[(..., *self.inner)]
        return out

    def share(self, size: Sequence[int]) -> float:
        """Say how much of the input is read."""
        (top, left), (height, width) = self.read, size
        return float((top.stop - top.start) * (left.stop - left.start) / (height * width))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    """The rows of one edit, neighbours in a batch."""

    numbers: tuple[int, ...]  #: in the batch
    at: Tensor  #: the same on the device, [R]
    rows: Sequence[MaskedRow]
    crop: Crop

    def cached(self, name: str) -> Tensor:
        """Give what was recorded, for each row. Shapes: [R, ...]."""
        return torch.stack([row.cached[name] for row in self.rows])


class CroppedConvolutions:
    """The blocks of convolutions of one UNet."""

    def __init__(self, model: Module) -> None:
        """Hook every block that can be cropped."""
        self.names: list[str] = []  #: of all that is recorded
        self._hooked = HookedModel.of(model)
        for name, module in model.named_modules():
            if isinstance(module, ResnetBlock) and _is_plain(module):
                self._hook(name, module, Reach(scale=1, halo=2))
            elif isinstance(module, Upsample) and _is_convolution(module):
                self._hook(name, module, Reach(scale=2, halo=1))

    def _hook(self, name: str, block: Module, reach: Reach) -> None:
        norms = hook_norms(self._hooked, name, block)
        self._hooked.hook(block, "crop", partial(self._forward, name, norms, reach))
        self.names += [name, *norms]

    def _forward(
        self,
        name: str,
        norms: Sequence[str],
        reach: Reach,
        context: ForwardContext,
        whole: Whole,
        block: Module,
        hidden: Tensor,
        *args: Argument,
    ) -> Tensor:
        """Compute a block's output: rows in full by `whole`, the others in their boxes.

        Shapes: hidden [B, C, h, w] -> [B, D, scale h, scale w].
        """
        del block
        rows = rows_of(context)
        edits = [*_edits(rows, name, hidden, reach)]
        if edits:
            out = self._forward_cropped(name, norms, whole, rows, edits, hidden, *args)
        else:
            out = whole(hidden, *args)
        for row, output in zip(rows, out, strict=False):
            if isinstance(row, RecordedRow):
                row.outputs[name] = output.flatten(1)
        return out

    def _forward_cropped(
        self,
        name: str,
        norms: Sequence[str],
        whole: Whole,
        rows: Sequence[Row],
        edits: Sequence[_Edit],
        hidden: Tensor,
        *args: Argument,
    ) -> Tensor:
        batch, parts = len(hidden), []
        for edit in edits:
            given = GivenStatistics({norm: edit.cached(norm) for norm in norms})
            own = [select(value, edit.at, batch) for value in args]
            with self._hooked.running(ForwardContext(EditRows(()), given)):
                made = whole(edit.crop.read_from(hidden[edit.at]), *own)
            parts.append((edit.at, edit.crop.put(made, edit.cached(name))))
        done = {row for edit in edits for row in edit.numbers}
        if rest := rest_of(done, batch):
            at = numbered(tuple(rest), hidden.device)
            own = [select(value, at, batch) for value in args]
            in_full = EditRows([rows[row] for row in rest if row < len(rows)])
            with self._hooked.running(ForwardContext(in_full)):
                parts.append((at, whole(hidden[at], *own)))
        out = torch.empty((batch, *parts[0][1].shape[1:]), dtype=hidden.dtype, device=hidden.device)
        for at, part in parts:
            out[at] = part
        return out


def _edits(rows: Sequence[Row], name: str, hidden: Tensor, reach: Reach) -> Iterator[_Edit]:
    """Put the rows of one edit together, of those that are worth a crop."""
    size = hidden.shape[2:]
    alike: dict[int, list[int]] = {}
    for at, row in enumerate(rows):
        if isinstance(row, MaskedRow) and name in row.cached:
            alike.setdefault(id(row.cells), []).append(at)
    for numbers in map(tuple, alike.values()):
        masked = [row for at in numbers if isinstance(row := rows[at], MaskedRow)]
        box = masked[0].box(reach.scale * size[0], reach.scale * size[1])
        crop = Crop.around(box, size, reach)
        if crop.share(size) <= _MOST:
            on_device = numbered(numbers, hidden.device)
            yield _Edit(numbers=numbers, at=on_device, rows=masked, crop=crop)


def _is_plain(block: Module) -> bool:
    """Tell whether the kernels of a residual block reach one cell each, on one resolution."""
    kernels = {block.conv1.kernel_size, block.conv2.kernel_size}
    return block.upsample is None and block.downsample is None and kernels == {(3, 3)}


def _is_convolution(block: Module) -> bool:
    """Tell whether an upsampler doubles cells, and its one kernel reaches one cell."""
    conv = getattr(block, "conv", None)
    plain = block.use_conv and block.interpolate and not block.use_conv_transpose
    return bool(plain and block.norm is None and conv is not None and conv.kernel_size == (3, 3))
