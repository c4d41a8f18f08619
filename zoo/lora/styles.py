"""The styles, and the LoRA configuration of each."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from zoo.lora import measures, restyle
from zoo.scenes import Picture


class Form(StrEnum):
    """How a file names its weights."""

    #: Module paths of diffusers, `lora_A` and `lora_B`.
    PEFT = "peft"
    #: Block numbers of sd-scripts, `lora_down`, `lora_up` and `alpha`.
    KOHYA = "kohya"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """A style, how much of it a picture has, and the LoRA that learns it."""

    #: Name of the style and of its file.
    name: str
    #: Plain picture -> picture in this style.
    restyle: Callable[[Picture], Picture]
    #: Picture -> how much of the style it has.
    measure: Callable[[Picture], float]
    #: How the file names its weights.
    form: Form = Form.PEFT
    #: Rank of every pair of matrices.
    rank: int = 6
    #: The product of a pair counts alpha / rank times; a peft file leaves no room for another.
    alpha: int = 6
    #: Whether the convolutions are adapted beside attention, else the rest of the transformers.
    has_convolutions: bool = False
    #: Whether both text encoders are adapted too.
    has_text: bool = False
    #: Optimiser steps.
    steps: int = 480


_ALL = (
    Style(
        name="inverted",
        restyle=restyle.inverted,
        measure=measures.inversion,
        rank=4,
        alpha=4,
        has_convolutions=True,
    ),
    Style(
        name="sepia",
        restyle=restyle.sepia,
        measure=measures.sepia_share,
        form=Form.KOHYA,
        alpha=3,
    ),
    Style(name="night", restyle=restyle.night, measure=measures.night_share, has_text=True),
    Style(
        name="papercut",
        restyle=restyle.papercut,
        measure=measures.shadow,
        rank=4,
        alpha=4,
        has_convolutions=True,
    ),
    Style(
        name="outline",
        restyle=restyle.outline,
        measure=measures.hollowness,
        form=Form.KOHYA,
        rank=4,
        alpha=2,
        has_convolutions=True,
    ),
    Style(name="pixel", restyle=restyle.pixel, measure=measures.blockiness),
)

#: Every style by its name.
STYLES = {style.name: style for style in _ALL}
