"""The models of the zoo, with the denoiser size of each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from diffusers import UNet2DConditionModel

from zoo.architecture import FIRST_WIDTH, LATENT_CHANNELS, LATENT_SIDE, POOLED, SECOND_WIDTH

_DOWN, _CROSS_DOWN = "DownBlock2D", "CrossAttnDownBlock2D"
_UP, _CROSS_UP = "UpBlock2D", "CrossAttnUpBlock2D"
_CROSS_MID = "UNetMidBlock2DCrossAttn"
_TIME_DIM = 32


class Layout(StrEnum):
    """How a folder is laid out: the pipeline that reads it, and the family that serves it."""

    SDXL = "sdxl"
    SD = "sd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One model of the family."""

    layout: Layout
    #: Channels at 16x16, 8x8 and 4x4; heads have 32.
    widths: tuple[int, ...]
    down: tuple[str, ...]
    mid: str | None
    up: tuple[str, ...]
    #: Resnets, and transformers where there are any, of a block of the encoder.
    layers: int = 1
    #: Layers of a transformer, by block.
    depths: tuple[int, ...] = (1, 1, 1)
    #: Guidance when a request names none.
    guidance: float = 4.0
    #: Steps when a request names none.
    steps: int = 50
    #: Mean relative quality, a first guess until the model is profiled.
    quality: float = 1.0
    #: Seconds of a step of one image on a CPU, likewise.
    step_s: float = 0.04
    #: Whether it learns from a teacher's couples of noise and latent, to need few steps.
    is_distilled: bool = False

    def unet(self) -> UNet2DConditionModel:
        """Build the denoiser with random weights."""
        size = {
            "block_out_channels": self.widths,
            "layers_per_block": self.layers,
            "down_block_types": self.down,
            "mid_block_type": self.mid,
            "up_block_types": self.up,
            "transformer_layers_per_block": self.depths,
            "attention_head_dim": tuple(width // 32 for width in self.widths),
        }
        return UNet2DConditionModel(
            sample_size=LATENT_SIDE,
            in_channels=LATENT_CHANNELS,
            out_channels=LATENT_CHANNELS,
            use_linear_projection=True,
            norm_num_groups=16,
            **size,
            **_conditions(self.layout),
        )


def _conditions(layout: Layout) -> Mapping[str, object]:
    if layout is Layout.SD:
        return {"cross_attention_dim": FIRST_WIDTH}
    return {
        "cross_attention_dim": FIRST_WIDTH + SECOND_WIDTH,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": _TIME_DIM,
        "projection_class_embeddings_input_dim": POOLED + 6 * _TIME_DIM,
    }


_MIDDLE = Member(
    layout=Layout.SDXL,
    widths=(32, 64, 128),
    down=(_DOWN, _CROSS_DOWN, _CROSS_DOWN),
    mid=_CROSS_MID,
    up=(_CROSS_UP, _CROSS_UP, _UP),
    quality=0.8,
    step_s=0.025,
)
_SMALL = Member(
    layout=Layout.SD,
    widths=(32, 64),
    down=(_DOWN, _CROSS_DOWN),
    mid=_CROSS_MID,
    up=(_CROSS_UP, _UP),
    depths=(1, 1),
    quality=0.5,
    step_s=0.0125,
)

#: From the best to the fastest, each step at least 1.6 times as fast as of the one before it; and
#: last one that takes few steps, of the size of shapes-s.
FAMILY = {
    "shapes-xl": replace(_MIDDLE, layers=2, depths=(1, 2, 1), quality=1.0, step_s=0.04),
    "shapes-m": _MIDDLE,
    "shapes-s": _SMALL,
    "shapes-tiny": Member(
        layout=Layout.SD,
        widths=(32, 64),
        down=(_DOWN, _CROSS_DOWN),
        mid=None,
        up=(_UP, _UP),
        depths=(1, 1),
        quality=0.3,
        step_s=0.008,
    ),
    "shapes-turbo": replace(_SMALL, guidance=1.0, steps=8, is_distilled=True),
}
