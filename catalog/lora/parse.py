"""Parse a LoRA file into low-rank products, checked against a model. No torch.

Header, names and shapes are checked before any number is read; the factor of each product is
computed here, module by module: stock diffusers 0.42 gets it wrong where a file mixes alphas.
"""

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from mmap import mmap

from catalog.lora.header import HEAD_BYTES, Header, TensorEntry, read_header
from catalog.lora.metadata import StatedAlphas
from catalog.lora.names import Shapes, name_layers
from core.errors import LoraRefused

#: What a name says after the layer: which factor, or the layer's alpha.
_ROLE = re.compile(
    r"(?P<layer>.+?)"
    r"(?:(?P<down>\.lora_A|\.lora_A\.default|\.lora\.down|_lora\.down"
    r"|\.lora_linear_layer\.down|\.lora_down)\.weight"
    r"|(?P<up>\.lora_B|\.lora_B\.default|\.lora\.up|_lora\.up"
    r"|\.lora_linear_layer\.up|\.lora_up)\.weight"
    r"|(?P<alpha>\.alpha))"
)

#: Parts of names that give another kind of adapter away.
_OTHERS = {
    "dora_scale": "DoRA",
    "lora_magnitude_vector": "DoRA",
    "lokr_": "LoKr",
    "hada_": "LoHa",
    "oft_": "OFT",
    "lora_mid": "LoCon in Tucker's form",
    "lora_embedding": "a LoRA of embeddings",
    "bundle_emb": "textual inversion",
    ".diff": "differences of whole weights",
    ".bias": "a LoRA with biases",
}

_FACTORS = {"F32", "F16", "BF16"}

#: How an alpha is kept: its format for `struct`.
_SCALARS = {"F64": "<d", "F32": "<f", "F16": "<e", "I64": "<q", "I32": "<i"}


#: A whole file.
Bytes = bytes | bytearray | mmap


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What a file holds for one layer: the change of its weight is `scale * up @ down`."""

    layer: str  #: such as `unet.conv_in`
    down: TensorEntry  #: [r, in], or [r, in, k, k] of a convolution
    up: TensorEntry  #: [out, r], or [out, r, 1, 1]
    scale: float  #: alpha / r


def parse(data: Bytes, shapes: Shapes) -> list[Pair]:
    """Read which layers a file changes, and check that the model has them. No weight is read.

    Raises: LoraRefused naming the tensor and the reason.
    """
    return find_pairs(data, read_header(BytesIO(data[:HEAD_BYTES]), len(data)), shapes)


def find_pairs(data: Bytes, header: Header, shapes: Shapes) -> list[Pair]:
    """Read which layers a file with this header changes, as `parse`.

    Raises: LoraRefused naming the tensor and the reason.
    """
    stated = StatedAlphas.read(header.metadata)
    return [
        _pair(data, layer, roles, stated)
        for layer, roles in sorted(_by_role(header, shapes).items())
    ]


def check_head(header: Header, shapes: Shapes) -> None:
    """Refuse a file whose header says that the model does not have its layers.

    Raises: LoraRefused naming the tensor and the reason.
    """
    StatedAlphas.read(header.metadata)
    _by_role(header, shapes)


def _by_role(header: Header, shapes: Shapes) -> dict[str, dict[str, TensorEntry]]:
    """Find the tensors of each layer by what they are for; all must be there and fit."""
    _refuse_others(header)
    found = _by_layer(header, name_layers(shapes))
    if not found:
        raise LoraRefused("no tensor in it")
    for layer, roles in found.items():
        _check_shapes(layer, roles, shapes[layer])
    return found


def _refuse_others(header: Header) -> None:
    for name in header.tensors:
        for part, kind in _OTHERS.items():
            if part in name:
                raise LoraRefused(f"{kind} is not served, only plain LoRA: {name}")


def _by_layer(header: Header, names: Mapping[str, str]) -> dict[str, dict[str, TensorEntry]]:
    found: dict[str, dict[str, TensorEntry]] = {}
    for name, entry in header.tensors.items():
        role = _ROLE.fullmatch(name)
        layer = names.get(role["layer"]) if role else None
        if role is None or layer is None:
            raise LoraRefused(f"{name}: the model has no such layer")
        roles, which = found.setdefault(layer, {}), str(role.lastgroup)
        if which in roles:
            raise LoraRefused(f"{name}: a second {which} for {layer}")
        roles[which] = entry
    return found


def _check_shapes(layer: str, roles: Mapping[str, TensorEntry], shape: tuple[int, ...]) -> None:
    if missing := {"down", "up"} - roles.keys():
        raise LoraRefused(f"{layer}: {missing.pop()} is missing")
    down, up = roles["down"], roles["up"]
    rank = down.shape[0] if down.shape else 0
    if {down.dtype, up.dtype} - _FACTORS:
        raise LoraRefused(f"{layer}: kept as {down.dtype} and {up.dtype}, not as F32, F16 or BF16")
    if rank < 1 or not _fits(down.shape, (rank, *shape[1:])):
        raise LoraRefused(f"{layer}: down is {down.shape}, the weight {shape}")
    if not _fits(up.shape, (shape[0], rank)):
        raise LoraRefused(f"{layer}: up is {up.shape}, the weight {shape}, down {down.shape}")


def _pair(data: Bytes, layer: str, roles: Mapping[str, TensorEntry], stated: StatedAlphas) -> Pair:
    down, up = roles["down"], roles["up"]
    alpha = _scalar(data, layer, roles["alpha"]) if "alpha" in roles else None
    return Pair(layer=layer, down=down, up=up, scale=stated.scale(layer, alpha, down.shape[0]))


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Tell whether shapes are the same but for sides of one at the end."""
    return tuple(_cut(shape)) == tuple(_cut(wanted))


def _cut(shape: tuple[int, ...]) -> Iterator[int]:
    last = max((at for at, side in enumerate(shape) if side != 1), default=0)
    yield from shape[: max(last + 1, 2)]


def _scalar(data: Bytes, layer: str, entry: TensorEntry) -> float:
    raw = bytes(data[entry.begin : entry.end])
    if entry.dtype == "BF16":
        raw, dtype = b"\0\0" + raw, "F32"
    else:
        dtype = entry.dtype
    if math.prod(entry.shape) != 1 or dtype not in _SCALARS:
        raise LoraRefused(f"{layer}: alpha is {entry.dtype}{list(entry.shape)}, not one number")
    value = float(struct.unpack(_SCALARS[dtype], raw)[0])
    if not math.isfinite(value):
        raise LoraRefused(f"{layer}: alpha is {value}")
    return value
