"""Validate a ControlNet file and derive its config from headers. No torch.

A ControlNet is a copy of its model's encoder, and a few layers more (Zhang et al.,
arXiv:2302.05543). So its config follows from that of the model and from the shapes in the file.
"""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import msgspec

from catalog.controlnet.encoder import Config, ControlNetEncoder, Shape, Traits
from catalog.controlnet.flux_encoder import FluxEncoder
from catalog.controlnet.joint_encoder import JointEncoder
from catalog.controlnet.unet_encoder import UNetEncoder
from catalog.safetensors_header import TensorEntry, read_header
from core.errors import BadWeights, WeightsRefused

_FLOATS = {"F16", "BF16", "F32"}
_NO_TRAITS = Traits()
Tensors = Mapping[str, TensorEntry]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What lies beside the weights of a kept ControlNet."""

    config: Config
    sha256: str  #: hex digest of the weights


def read_encoder(folder: Path) -> ControlNetEncoder | None:
    """Read what of a pipeline's folder a ControlNet copies; None if none is served for it.

    Raises: BadWeights naming the file and the reason.
    """
    return UNetEncoder.read(folder) or JointEncoder.read(folder) or FluxEncoder.read(folder)


def read_tensors(head: bytes, size: int, *, is_whole: bool = True) -> Tensors:
    """Read what a file of weights alone holds, of `size` bytes or so many of them yet.

    `head`: its first `HEAD_BYTES`.

    Raises: BadWeights saying why it is none.
    """
    try:
        return read_header(BytesIO(head), size, is_whole=is_whole).tensors
    except WeightsRefused as error:
        raise BadWeights(str(error)) from error


def find_config(tensors: Tensors, of: ControlNetEncoder, traits: Traits = _NO_TRAITS) -> Config:
    """Give the config of a file with these tensors.

    Raises: BadWeights saying why it is no ControlNet of this model.
    """
    shapes = {name: entry.shape for name, entry in tensors.items()}
    expected = of.expected(shapes)
    for name in sorted(shapes.keys() | expected.keys()):
        if shapes.get(name) != expected.get(name):
            own, its = _sized(shapes.get(name)), _sized(expected.get(name))
            raise BadWeights(f"{name} is {own}, and {its} in a ControlNet of this model")
    if odd := [name for name, entry in tensors.items() if entry.dtype not in _FLOATS]:
        raise BadWeights(f"{odd[0]}: numbers that are none of {', '.join(sorted(_FLOATS))}")
    return of.config(shapes, traits)


def _sized(shape: Shape | None) -> str:
    return "missing" if shape is None else " x ".join(map(str, shape))
