"""Apply LoRAs to a batch: merged into the weights, or per row.

If all rows ask for the same LoRAs, these are merged in place, and left so for the next step. If
rows differ, the weights are restored and each row adds its own. If rows differ and some are masked
edits, whose tokens are packed row over row, every mix is a call of its own, merged.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Protocol, TypeVar

from torch.nn import Conv2d, Linear

from catalog.lora.names import TEXT_ENCODERS, Shapes
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
        self._rows: tuple[Mix, ...] | None = None  #: of the last call
        self.reader = PLAIN  #: what the text encoders are adapted to now
        self.shapes: Shapes = {
            name: tuple(layer.weight.shape) for name, layer in (layers | text).items()
        }

    @contextmanager
    def reading(self, mix: Mix) -> Iterator[None]:
        """Let the text encoders be those of a mix for a while."""
        try:
            self.reader = mix if mix.layers() & self._text.layers.keys() else PLAIN
            self._text.apply(self.reader)
            yield
        finally:
            self.reader = PLAIN
            self._text.apply(PLAIN)

    def split(self, samples: Sequence[A]) -> list[list[A]]:
        """Cut a batch into calls: one, unless rows differ and some are under masks."""
        if not any(s.reuse for s in samples) or len({sample.mix for sample in samples}) == 1:
            return [list(samples)]
        ordered = sorted(samples, key=lambda sample: sample.mix.key)
        return [list(alike) for _, alike in groupby(ordered, key=lambda sample: sample.mix)]

    def apply(self, rows: tuple[Mix, ...]) -> frozenset[str]:
        """Have the next call be that of rows with these; name the layers that add row by row."""
        if rows is self._rows:  # as they are from step to step
            return self._per_row.adding
        self._rows, mixes = None, set(rows)
        if len(mixes) == 1:
            self._per_row.apply(())
            self._merging.apply(mixes.pop())
        else:
            self._merging.apply(PLAIN)
            self._per_row.apply(rows)
        self._rows = rows
        return self._per_row.adding

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
