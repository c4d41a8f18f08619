"""Protocol: config and expected weights of a ControlNet, by model family. No torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from catalog.safetensors_header import read_header
from core.errors import BadWeights, WeightsRefused

Shape = tuple[int, ...]
Config = dict[str, object]  #: as diffusers writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the weights of a ControlNet do not tell."""

    is_bgr: bool = False  #: of a UNet: whether it reads colours in this order
    is_told_pooled: bool = False  #: of a transformer: the pooled prompt, and the condition shifted


class ControlNetEncoder(Protocol):
    """What a ControlNet copies of a model."""

    def expected(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """Shape every tensor of a ControlNet of this model that is as large as this one.

        Raises: BadWeights if it cannot be one of any size.
        """
        ...

    def config(self, shapes: Mapping[str, Shape], traits: Traits) -> Config:
        """Give the config of a ControlNet whose shapes are as expected.

        Raises: BadWeights for what is no trait of this family.
        """
        ...


def read_shapes(part: Path, is_copied: Callable[[str], bool]) -> dict[str, Shape]:
    """Read the shapes of what is copied of one part of a pipeline's folder.

    Raises: BadWeights naming the file and the reason.
    """
    shapes: dict[str, Shape] = {}
    for file in sorted(part.glob("*.safetensors")):
        try:
            with file.open("rb") as data:
                tensors = read_header(data, file.stat().st_size).tensors
        except (WeightsRefused, OSError) as error:
            raise BadWeights(f"{part.parent.name}/{part.name}/{file.name}: {error}") from error
        shapes |= {name: entry.shape for name, entry in tensors.items() if is_copied(name)}
    return shapes


def count_blocks(shapes: Mapping[str, Shape], prefix: str) -> int:
    """Count parts that are numbered from 0 on, as `prefix` names each. Example: `blocks.{}.`."""
    before, after = prefix.split("{}")
    numbers = {
        name[len(before) :].partition(after)[0] for name in shapes if name.startswith(before)
    }
    number = 0
    while str(number) in numbers:
        number += 1
    return number


def linear(name: str, out: int, into: int) -> dict[str, Shape]:
    """Shape the weights of a linear layer."""
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def convolution(name: str, out: int, into: int, *, side: int) -> dict[str, Shape]:
    """Shape the weights of a convolution, whose kernel is square."""
    return {f"{name}.weight": (out, into, side, side), f"{name}.bias": (out,)}
