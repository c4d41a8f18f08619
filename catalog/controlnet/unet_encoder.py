"""Config and expected weights of UNet ControlNets. No torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from catalog.controlnet.encoder import Config, Shape, Traits, convolution, count_blocks, read_shapes
from catalog.controlnet.t2i_adapter import (
    config_of_adapter,
    expected_of_adapter,
    is_t2i_adapter,
)
from catalog.controlnet.union import config_of_union, expected_of_union, is_union
from core.errors import BadWeights

#: Parts of a UNet that a ControlNet copies.
_COPIED = (
    "conv_in.",
    "time_embedding.",
    "add_embedding.",
    "class_embedding.",
    "down_blocks.",
    "mid_block.",
)
#: Guidance as an embedding, which no ControlNet is told.
_NOT_COPIED = ("time_embedding.cond_proj.",)
#: Of the config of a UNet, what `ControlNetModel.from_unet` builds a ControlNet by.
_SHARED = frozenset(
    [
        "encoder_hid_dim",
        "encoder_hid_dim_type",
        "addition_embed_type",
        "addition_time_embed_dim",
        "transformer_layers_per_block",
        "in_channels",
        "flip_sin_to_cos",
        "freq_shift",
        "down_block_types",
        "only_cross_attention",
        "block_out_channels",
        "layers_per_block",
        "downsample_padding",
        "mid_block_scale_factor",
        "act_fn",
        "norm_num_groups",
        "norm_eps",
        "cross_attention_dim",
        "attention_head_dim",
        "num_attention_heads",
        "use_linear_projection",
        "class_embed_type",
        "num_class_embeds",
        "upcast_attention",
        "resnet_time_scale_shift",
        "projection_class_embeddings_input_dim",
        "mid_block_type",
    ]
)
_EMBEDDING = "controlnet_cond_embedding"


@dataclass(frozen=True, slots=True, kw_only=True)
class UNetEncoder:
    """The encoder of a UNet, and its middle."""

    shapes: Mapping[str, Shape]  #: of every tensor
    shared: Config  #: what its config and that of a ControlNet have in common
    halvings: int  #: of a picture's sides, until it is as large as a latent

    @classmethod
    def read(cls, folder: Path) -> "UNetEncoder | None":
        """Read it from a pipeline's folder; None if that has no UNet. Raises: BadWeights."""
        if not (folder / "unet").is_dir():
            return None
        config, vae = (
            json.loads((folder / part / "config.json").read_text()) for part in ("unet", "vae")
        )
        return cls(
            shapes=read_shapes(folder / "unet", _is_copied),
            shared={name: value for name, value in config.items() if name in _SHARED},
            halvings=len(vae["block_out_channels"]) - 1,
        )

    def expected(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """List the weights that a file with these shapes must have."""
        if is_t2i_adapter(shapes):
            return expected_of_adapter(shapes, self._block_widths(), self.halvings)
        channels, widths = _channels(shapes, self.halvings), self._widths()
        expected = {**self.shapes, **_embedding(channels, widths[0]), **_connections(widths)}
        if is_union(shapes):
            time_width = self.shapes["time_embedding.linear_2.weight"][0]
            expected |= expected_of_union(
                shapes, self.shared, width=widths[0], time_width=time_width
            )
        return expected

    def config(self, shapes: Mapping[str, Shape], traits: Traits) -> Config:
        """Write the config of `ControlNetModel`, or of a Union, for these weights."""
        if is_t2i_adapter(shapes) and traits == Traits():
            return config_of_adapter(shapes, self._block_widths(), self.halvings)
        if is_t2i_adapter(shapes):
            raise BadWeights("of a T2I-Adapter nothing is to be chosen: leave the options out")
        if traits.is_told_pooled:
            raise BadWeights("what a ControlNet of a UNet is told of a prompt is not to be chosen")
        if traits.is_bgr and is_union(shapes):
            raise BadWeights(
                "Union ControlNets read their colours as they are: leave the order out"
            )
        config: Config = {
            "_class_name": "ControlNetModel",
            **self.shared,
            "conditioning_channels": 3,
            "conditioning_embedding_out_channels": _channels(shapes, self.halvings),
            "controlnet_conditioning_channel_order": "bgr" if traits.is_bgr else "rgb",
        }
        return config | config_of_union(shapes) if is_union(shapes) else config

    def _block_widths(self) -> list[int]:
        widths = self.shared.get("block_out_channels")
        if not isinstance(widths, list):
            raise BadWeights("this model's config does not say how wide its blocks are")
        return widths

    def _widths(self) -> list[int]:
        """Give the channels of what the encoder hands to the decoder, in its order."""
        widths = [self.shapes["conv_in.weight"][0]]
        for block in range(count_blocks(self.shapes, "down_blocks.{}.")):
            prefix = f"down_blocks.{block}."
            layers = count_blocks(self.shapes, prefix + "resnets.{}.")
            widths += [self.shapes[f"{prefix}resnets.{at}.conv2.weight"][0] for at in range(layers)]
            if f"{prefix}downsamplers.0.conv.weight" in self.shapes:
                widths.append(widths[-1])
        return widths


def _is_copied(name: str) -> bool:
    return name.startswith(_COPIED) and not name.startswith(_NOT_COPIED)


def _channels(shapes: Mapping[str, Shape], halvings: int) -> list[int]:
    """Read how a condition is brought to the size of a latent: channels before, and halved."""
    names = ["conv_in", *(f"blocks.{2 * at + 1}" for at in range(halvings))]
    found = [shapes.get(f"{_EMBEDDING}.{name}.weight", ()) for name in names]
    if not all(len(shape) == 4 for shape in found):
        raise BadWeights(f"{_EMBEDDING} does not halve its condition {halvings} times")
    return [shape[0] for shape in found]


def _embedding(channels: list[int], width: int) -> dict[str, Shape]:
    """Shape the convolutions that bring a condition to the size of a latent."""
    sizes = {"conv_in": (channels[0], 3), "conv_out": (width, channels[-1])}
    for at, (before, after) in enumerate(pairwise(channels)):
        sizes |= {f"blocks.{2 * at}": (before, before), f"blocks.{2 * at + 1}": (after, before)}
    return {
        name: shape
        for part, size in sizes.items()
        for name, shape in convolution(f"{_EMBEDDING}.{part}", *size, side=3).items()
    }


def _connections(widths: list[int]) -> dict[str, Shape]:
    """Shape the convolutions that begin at zero, one for each connection, and of the middle."""
    names = [f"controlnet_down_blocks.{at}" for at in range(len(widths))]
    return {
        name: shape
        for part, width in zip([*names, "controlnet_mid_block"], [*widths, widths[-1]], strict=True)
        for name, shape in convolution(part, width, width, side=1).items()
    }
