"""Is a file a ControlNet of a model, and how are its weights read? Told by headers. No torch.

A ControlNet is a copy of its model's encoder, and a few convolutions more (Zhang et al.,
arXiv:2302.05543). So its config follows from that of the model and from the shapes in the file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import count, pairwise
from pathlib import Path

import msgspec

from core.errors import BadWeights, LoraRefused
from worker.lora.header import read_header

Shape = tuple[int, ...]
Config = dict[str, object]  #: as diffusers writes it

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
#: Parts of a pipeline that tell of its ControlNets.
_PARTS = ("unet", "vae")
_EMBEDDING = "controlnet_cond_embedding"
_FLOATS = {"F16", "BF16", "F32"}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What lies beside the weights of a kept ControlNet."""

    config: Config
    sha256: str  #: hex digest of the weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """What a ControlNet copies of a model."""

    shapes: Mapping[str, Shape]  #: of every tensor
    config: Mapping[str, object]
    halvings: int  #: of a picture's sides, until it is as large as a latent


def read_encoder(folder: Path) -> Encoder | None:
    """Read what of a pipeline's folder a ControlNet copies; None if it has no UNet.

    Raises: BadWeights naming the file and the reason.
    """
    unet = folder / "unet"
    if not unet.is_dir():
        return None
    shapes: dict[str, Shape] = {}
    for file in sorted(unet.glob("*.safetensors")):
        try:
            with file.open("rb") as data:
                tensors = read_header(data, file.stat().st_size).tensors
        except (LoraRefused, OSError) as error:
            raise BadWeights(f"{folder.name}/unet/{file.name}: {error}") from error
        shapes |= {name: entry.shape for name, entry in tensors.items() if _is_copied(name)}
    config, vae = (json.loads((folder / part / "config.json").read_text()) for part in _PARTS)
    return Encoder(
        shapes=shapes,
        config={name: value for name, value in config.items() if name in _SHARED},
        halvings=len(vae["block_out_channels"]) - 1,
    )


def read_config(
    head: bytes, size: int, of: Encoder, *, is_bgr: bool = False, is_whole: bool = True
) -> Config:
    """Give the config of a file of weights alone, of `size` bytes or so many of them yet.

    `head`: its first `HEAD_BYTES`.

    Raises: BadWeights saying why it is no ControlNet of this model.
    """
    try:
        tensors = read_header(BytesIO(head), size, is_whole=is_whole).tensors
    except LoraRefused as error:
        raise BadWeights(str(error)) from error
    shapes = {name: entry.shape for name, entry in tensors.items()}
    channels = _channels(shapes, of.halvings)
    expected = {**of.shapes, **_embedding(channels, _widths(of)[0]), **_connections(_widths(of))}
    for name in sorted(shapes.keys() | expected.keys()):
        if shapes.get(name) != expected.get(name):
            own, its = _sized(shapes.get(name)), _sized(expected.get(name))
            raise BadWeights(f"{name} is {own}, and {its} in a ControlNet of this model")
    if odd := [name for name, entry in tensors.items() if entry.dtype not in _FLOATS]:
        raise BadWeights(f"{odd[0]}: numbers that are none of {', '.join(sorted(_FLOATS))}")
    return {
        "_class_name": "ControlNetModel",
        **of.config,
        "conditioning_channels": 3,
        "conditioning_embedding_out_channels": channels,
        "controlnet_conditioning_channel_order": "bgr" if is_bgr else "rgb",
    }


def _is_copied(name: str) -> bool:
    return name.startswith(_COPIED) and not name.startswith(_NOT_COPIED)


def _channels(shapes: Mapping[str, Shape], halvings: int) -> list[int]:
    """Read how a condition is brought to the size of a latent: channels before, and halved."""
    names = ["conv_in", *(f"blocks.{2 * at + 1}" for at in range(halvings))]
    found = [shapes.get(f"{_EMBEDDING}.{name}.weight", ()) for name in names]
    if not all(len(shape) == 4 for shape in found):
        raise BadWeights(f"{_EMBEDDING} does not halve its condition {halvings} times")
    return [shape[0] for shape in found]


def _widths(of: Encoder) -> list[int]:
    """Give the channels of what the encoder hands to the decoder, in its order."""
    widths = [of.shapes["conv_in.weight"][0]]
    for block in range(_count(of, "down_blocks.{}.")):
        prefix = f"down_blocks.{block}."
        layers = _count(of, prefix + "resnets.{}.")
        widths += [of.shapes[f"{prefix}resnets.{at}.conv2.weight"][0] for at in range(layers)]
        if f"{prefix}downsamplers.0.conv.weight" in of.shapes:
            widths.append(widths[-1])
    return widths


def _count(of: Encoder, prefix: str) -> int:
    numbers = (at for at in count() if not any(n.startswith(prefix.format(at)) for n in of.shapes))
    return next(numbers)


def _embedding(channels: list[int], width: int) -> dict[str, Shape]:
    """Shape the convolutions that bring a condition to the size of a latent."""
    sizes = {"conv_in": (channels[0], 3), "conv_out": (width, channels[-1])}
    for at, (before, after) in enumerate(pairwise(channels)):
        sizes |= {f"blocks.{2 * at}": (before, before), f"blocks.{2 * at + 1}": (after, before)}
    return {
        name: shape
        for part, size in sizes.items()
        for name, shape in _convolution(f"{_EMBEDDING}.{part}", *size, side=3).items()
    }


def _connections(widths: list[int]) -> dict[str, Shape]:
    """Shape the convolutions that begin at zero, one for each connection, and of the middle."""
    names = [f"controlnet_down_blocks.{at}" for at in range(len(widths))]
    return {
        name: shape
        for part, width in zip([*names, "controlnet_mid_block"], [*widths, widths[-1]], strict=True)
        for name, shape in _convolution(part, width, width, side=1).items()
    }


def _convolution(name: str, out: int, into: int, *, side: int) -> dict[str, Shape]:
    return {f"{name}.weight": (out, into, side, side), f"{name}.bias": (out,)}


def _sized(shape: Shape | None) -> str:
    return "missing" if shape is None else " x ".join(map(str, shape))
