"""Apply LoRAs to a batch: merged into the weights, or per row.

If all rows ask for the same LoRAs, these are merged in place, and left so for the next step. If
rows differ, the weights are restored and each row adds its own. If rows differ and some are masked
edits, whose tokens are packed row over row, every mix is a call of its own, merged; so is, of any
batch, a mix that has no short factors (LoHa, LoKr, differences, DoRA, Tucker's form).

In half precision a merged weight is rounded, and a product beside it is not: the two ways differ by
what rounding does. A mix that is fixed, that of an exact image, goes one of them in any company.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby
from threading import RLock
from typing import Protocol, TypeVar

import torch
from torch.nn import Conv2d, Linear

from catalog.lora.names import BIAS, TEXT_ENCODERS, Shapes
from worker.diffusion.stock import Module, Pipe
from worker.lora.merge import Merging
from worker.lora.mix import PLAIN, Mix
from worker.lora.per_row import PerRow
from worker.masking.reuse import Reuse


class Adapted(Protocol):
    """A sample that may have LoRAs."""

    @property
    def mix(self) -> Mix: ...
    @property
    def reuse(self) -> Reuse | None: ...


A = TypeVar("A", bound=Adapted)


class Adapters:
    """The LoRAs of one resident pipeline."""

    def __init__(self, pipe: Pipe, part: str) -> None:
        """Take the layers of the part that is called at every step, and of the text encoders."""
        layers = layers_of(getattr(pipe, part), part)
        self._merging, self._per_row = Merging(layers), PerRow(layers)
        text: dict[str, Module] = {}
        for name in TEXT_ENCODERS:
            text |= layers_of(getattr(pipe, name, None), name)
        self._text = Merging(text)
        #: Whether a merged weight is rounded to fewer digits than products are added with.
        self._is_half = any(layer.weight.dtype != torch.float32 for layer in layers.values())
        self._rows: tuple[Mix, ...] | None = None  #: of the last call
        self.reader = PLAIN  #: what the text encoders are adapted to now
        self.encoders = RLock()  #: of whoever calls the text encoders or changes them
        self.shapes: Shapes = {
            name: tuple(tensor.shape)
            for layer, module in (layers | text).items()
            for name, tensor in ((layer, module.weight), (layer + BIAS, module.bias))
            if tensor is not None
        }

    @contextmanager
    def reading(self, mix: Mix) -> Iterator[None]:
        """Let the text encoders be those of a mix for a while."""
        reader = mix if mix.layers() & self._text.layers.keys() else PLAIN
        with nullcontext() if reader is PLAIN else self.encoders:
            try:
                self.reader = reader
                self._text.apply(reader)
                yield
            finally:
                self.reader = PLAIN
                self._text.apply(PLAIN)

    def split(self, samples: Sequence[A]) -> list[list[A]]:
        """Cut a batch into calls: one, unless rows differ and some can only be merged.

        The first is what the weights are now, so that a step changes them once less.
        """
        if len({sample.mix for sample in samples}) == 1:
            return [list(samples)]
        is_masked = any(sample.reuse for sample in samples)

        def call(sample: A) -> tuple[bool, bool, tuple[tuple[str, float], ...]]:
            mix = sample.mix
            if mix.is_short and (self._keeps_rows(mix) or not is_masked):
                return (False, False, ())
            return (True, mix.is_fixed, mix.key)

        grouped = groupby(sorted(samples, key=call), key=call)
        alikes = [(key[0], list(alike)) for key, alike in grouped]
        alikes.sort(key=lambda each: not self._merging.has(each[1][0].mix if each[0] else PLAIN))
        return [alike for _, alike in alikes]

    def apply(self, rows: tuple[Mix, ...]) -> frozenset[str]:
        """Have the next call be that of rows with these; name the layers that add row by row."""
        if rows is self._rows:  # as they are from step to step
            return self._per_row.adding
        self._rows, mixes = None, set(rows)
        if len(mixes) == 1 and not self._keeps_rows(rows[0]):
            self._per_row.apply(())
            self._merging.apply(mixes.pop())
        else:
            self._merging.apply(PLAIN)
            self._per_row.apply(rows)
        self._rows = rows
        return self._per_row.adding

    def _keeps_rows(self, mix: Mix) -> bool:
        """Tell whether a mix is added row by row though it could be merged."""
        return self._is_half and mix.is_fixed and mix.is_short

    def close(self) -> None:
        """Let go of the layers, and of what they were."""
        for holder in (self._merging, self._text, self._per_row):
            holder.close()


def layers_of(module: Module | None, part: str) -> dict[str, Module]:
    """Name the layers of a part of a pipeline that a LoRA can change.

    One of the text encoders has a level `text_model`, the other lost it in transformers 5: here
    neither has.
    """
    if module is None:
        return {}
    return {
        f"{part}.{name.removeprefix('text_model.')}": layer
        for name, layer in module.named_modules()
        if isinstance(layer, Conv2d | Linear)
    }
