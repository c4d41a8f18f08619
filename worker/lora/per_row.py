"""Per-row LoRAs in one batch, as low-rank products beside each layer.

A layer's output gets `up @ (down @ input)` of its row added; rows without LoRAs get nothing. Rows
that follow one another with the same LoRAs, as those of one image do, share a product.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import gcd

import torch
from torch import Tensor
from torch.nn import Conv2d, functional
from torch.utils.hooks import RemovableHandle

from worker.diffusion.stock import Module
from worker.lora.mix import PLAIN, Mix

#: Is given a layer, its input and its output, and changes the output.
Hook = Callable[[Module, tuple[Tensor], Tensor], None]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The rows between the first with a LoRA and the last, cut into runs of equal length."""

    mixes: tuple[Mix, ...]  #: of each run
    first: int  #: row
    length: int  #: rows of a run

    @classmethod
    def of(cls, rows: Sequence[Mix]) -> "Runs":
        """Cut rows into the longest runs of equal length that have one mix each."""
        adapted = [at for at, mix in enumerate(rows) if mix != PLAIN]
        first, stop = adapted[0], adapted[-1] + 1
        length = gcd(*(len(list(run)) for _, run in groupby(rows[first:stop])))
        return cls(tuple(rows[first:stop:length]), first, length)

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + self.length * len(self.mixes))


class PerRow:
    """The layers of one model, each of which adds what the rows of the batch ask for."""

    def __init__(self, layers: Mapping[str, Module]) -> None:
        self.layers = layers
        #: Layers that add anything to what they give, as their model names them.
        self.adding: frozenset[str] = frozenset()
        self._rows: tuple[Mix, ...] | None = ()  #: what they add; None once a change has failed
        self._handles: list[RemovableHandle] = []

    @torch.inference_mode()
    def apply(self, rows: Sequence[Mix]) -> None:
        """Have the layers add these mixes, one a row; none at all if rows are empty."""
        if tuple(rows) == self._rows:
            return
        self._rows = None
        while self._handles:
            self._handles.pop().remove()
        self.adding = frozenset()
        if any(mix != PLAIN for mix in rows):
            self._install(Runs.of(rows))
        self._rows = tuple(rows)

    def close(self) -> None:
        """Let go of the layers."""
        self.apply(())
        self.layers = {}

    def _install(self, runs: Runs) -> None:
        changed = {layer for mix in set(runs.mixes) for layer in mix.layers()} & self.layers.keys()
        self.adding = frozenset(layer.partition(".")[2] for layer in changed)
        for layer in changed:
            module = self.layers[layer]
            if any(mix.product(layer, module.weight) for mix in set(runs.mixes)):
                down, up = _stack(layer, runs.mixes, module.weight)
                add = _of_convolution if isinstance(module, Conv2d) else _of_linear
                self._handles.append(module.register_forward_hook(add(runs, down, up)))
            if (bias := _biases(layer, runs, module.weight)) is not None:
                self._handles.append(module.register_forward_hook(bias))


def _stack(layer: str, mixes: Sequence[Mix], weight: Tensor) -> tuple[Tensor, Tensor]:
    """Stack the factors of some mixes, shorter ones with zeros at their end.

    Shapes: down [S, R, in] or [S, R, in, k, k], up [S, out, R].
    """
    made = {mix: mix.product(layer, weight) for mix in set(mixes)}
    rank = max(len(product[0]) for product in made.values() if product is not None)
    down = weight.new_zeros(len(mixes), rank, *weight.shape[1:])
    up = weight.new_zeros(len(mixes), len(weight), rank)
    for at, mix in enumerate(mixes):
        if (product := made[mix]) is not None:
            down[at, : len(product[0])] = product[0]
            up[at, :, : len(product[0])] = product[1]
    return down, up


def _biases(layer: str, runs: Runs, weight: Tensor) -> Hook | None:
    made = {mix: mix.bias(layer, weight) for mix in set(runs.mixes)}
    if all(bias is None for bias in made.values()):
        return None
    nothing = weight.new_zeros(len(weight))
    of_runs = [nothing if made[mix] is None else made[mix] for mix in runs.mixes]
    biases = torch.stack([each.to(weight.dtype) for each in of_runs if each is not None])
    biases, rows = biases.repeat_interleave(runs.length, dim=0), runs.rows

    def add(module: Module, given: tuple[Tensor], made: Tensor) -> None:
        """Shapes: made [B, ..., out], or [B, out, h, w]."""
        is_image = isinstance(module, Conv2d)
        made[rows] += biases.view(
            len(biases), *((-1, 1, 1) if is_image else (*[1] * (made.ndim - 2), -1))
        )

    return add


def _of_linear(runs: Runs, down: Tensor, up: Tensor) -> Hook:
    up = up.transpose(1, 2).contiguous()
    count, rows = len(runs.mixes), runs.rows

    def add(module: Module, given: tuple[Tensor], made: Tensor) -> None:
        """Shapes: given [B, ..., in], made [B, ..., out]."""
        features = given[0][rows].reshape(count, -1, given[0].shape[-1])
        answer = made[rows].view(count, -1, made.shape[-1])
        # On a CPU few rows times many columns are several times as fast as many times few.
        narrow = torch.bmm(down, features.transpose(1, 2))
        answer.baddbmm_(narrow.transpose(1, 2), up)

    return add


def _of_convolution(runs: Runs, down: Tensor, up: Tensor) -> Hook:
    # One convolution for all rows: each row is a group of channels.
    down = down.repeat_interleave(runs.length, dim=0)
    up = up.repeat_interleave(runs.length, dim=0)
    kernel, count, rows = down.flatten(0, 1), len(down), runs.rows

    def add(module: Module, given: tuple[Tensor], made: Tensor) -> None:
        """Shapes: given [B, in, h, w], made [B, out, h', w']."""
        features = given[0][rows].reshape(1, -1, *given[0].shape[2:])
        narrow = functional.conv2d(
            features,
            kernel,
            stride=module.stride,
            padding=module.padding,
            dilation=module.dilation,
            groups=count,
        )
        _pixels(made[rows]).baddbmm_(up, narrow.view(count, up.shape[2], -1))

    return add


def _pixels(images: Tensor) -> Tensor:
    """Look at images as rows of pixels, whatever their format in memory.

    Shapes: [B, C, h, w] -> [B, C, h * w], a view.
    """
    batch, channels = images.shape[:2]
    if images.is_contiguous():
        return images.view(batch, channels, -1)
    return images.permute(0, 2, 3, 1).view(batch, -1, channels).transpose(1, 2)
