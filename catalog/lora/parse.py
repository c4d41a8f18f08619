"""Parse an adapter file into changes of layers, checked against a model. No torch.

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

from catalog.lora.forms import Form, check_shapes, form_of, rank_of
from catalog.lora.metadata import StatedAlphas
from catalog.lora.names import BIAS, Rows, Shapes, name_layers
from catalog.lora.originals import LayerRows, name_originals
from catalog.safetensors_header import HEAD_BYTES, Header, TensorEntry, read_header
from core.errors import WeightsRefused

#: What a name says after the layer: what the tensor is for.
_ROLES = {
    "down": r"(?:\.lora_A|\.lora_A\.default|\.lora\.down|_lora\.down|(?<=_lora[12])\.down"
    r"|\.lora_linear_layer\.down|\.lora_down)\.weight",
    "up": r"(?:\.lora_B|\.lora_B\.default|\.lora\.up|_lora\.up|(?<=_lora[12])\.up"
    r"|\.lora_linear_layer\.up|\.lora_up)\.weight",
    "mid": r"\.lora_mid\.weight",
    "up_bias": r"\.(?:lora_B|lora_B\.default|lora_up)\.bias",
    "down_scale": r"\.(?:lora_A|lora_down)\.scale_weight",
    "up_scale": r"\.(?:lora_B|lora_up)\.scale_weight",
    "alpha": r"\.alpha",
    "dora_scale": r"\.dora_scale",
    "magnitude": r"\.lora_magnitude_vector(?:\.default)?(?:\.weight)?",
    "diff": r"\.diff",
    "diff_b": r"\.diff_b",
    **{f"hada_{x}": rf"\.hada_{x}" for x in ("w1_a", "w1_b", "w2_a", "w2_b", "t1", "t2")},
    **{f"lokr_{x}": rf"\.lokr_{x}" for x in ("w1", "w1_a", "w1_b", "w2", "w2_a", "w2_b", "t2")},
}
_NAME = re.compile(
    "(?P<layer>.+?)(?:" + "|".join(f"(?P<{role}>{end})" for role, end in _ROLES.items()) + ")"
)

_NO_IMAGE_PROMPTS = (
    "this file is an IP-Adapter, which needs an image encoder and is no LoRA: an operator serves "
    "it from a folder of ATELIER_IP_ADAPTERS_DIR, and jobs name it as `ip_adapter`"
)
_ONLY = "is not served, only LoRA, DoRA, LoHa, LoKr and differences: save it as one of these"

#: Parts of names that give another kind of adapter away, and what to do about it.
_OTHERS = {
    "image_proj": _NO_IMAGE_PROMPTS,
    "ip_adapter": _NO_IMAGE_PROMPTS,
    "oft_": f"OFT {_ONLY}",
    "w_norm": f"a change of norms {_ONLY}",
    "b_norm": f"a change of norms {_ONLY}",
    "lora_embedding": f"a LoRA of embeddings {_ONLY}",
    "bundle_emb": "words of textual inversion beside a LoRA are not read: add them as embeddings, "
    "and the LoRA without them",
    "emb_params": "this file is an embedding (textual inversion), no LoRA: add it as one",
}

_MAGNITUDES = {"magnitude", "dora_scale"}
#: Tensors of one number, which are read here.
_NUMBERS = {"alpha", "down_scale", "up_scale"}

#: A tensor that says of a file that its numbers are of eight bits, and nothing else.
_MARKER = "scaled_fp8"

#: How a single number is kept: its format for `struct`.
_SCALARS = {"F64": "<d", "F32": "<f", "F16": "<e", "I64": "<q", "I32": "<i"}


#: A whole file.
Bytes = bytes | bytearray | mmap

#: Tensors of a published layer by what they are for.
_Found = dict[tuple[LayerRows, ...], dict[str, TensorEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerChange:
    """What a file holds for one layer."""

    layer: str  #: such as `unet.conv_in`
    form: Form
    tensors: Mapping[str, TensorEntry]  #: by what they are for, such as `down`
    scale: float  #: alpha / rank
    rows: Rows  #: of what the tensors make; all if empty


def parse(data: Bytes, shapes: Shapes) -> list[LayerChange]:
    """Read which layers a file changes, and check that the model has them. No weight is read.

    Raises: WeightsRefused naming the tensor and the reason.
    """
    return find_changes(data, read_header(BytesIO(data[:HEAD_BYTES]), len(data)), shapes)


def find_changes(data: Bytes, header: Header, shapes: Shapes) -> list[LayerChange]:
    """Read which layers a file with this header changes, as `parse`.

    Raises: WeightsRefused naming the tensor and the reason.
    """
    stated = StatedAlphas.read(header.metadata)
    found = _by_role(header, shapes, stated)
    made = [one for shares, roles in found.items() for one in _changes(data, shares, roles, stated)]
    return sorted(made, key=lambda change: change.layer)


def check_head(header: Header, shapes: Shapes) -> None:
    """Refuse a file whose header says that the model does not have its layers.

    Raises: WeightsRefused naming the tensor and the reason.
    """
    _by_role(header, shapes, StatedAlphas.read(header.metadata))


def _by_role(header: Header, shapes: Shapes, stated: StatedAlphas) -> _Found:
    """Find the tensors of each layer by what they are for; all must be there and fit."""
    _refuse_others(header)
    own = {name: (LayerRows(layer),) for name, layer in name_layers(shapes).items()}
    found = _by_layer(header, name_originals(shapes) | own)
    if not found:
        raise WeightsRefused("no tensor in it")
    seen: set[str] = set()
    for shares, roles in found.items():
        called = ", ".join(share.layer for share in shares)
        if twice := seen & {share.layer for share in shares}:
            raise WeightsRefused(f"{min(twice)}: changed twice, under two names")
        seen |= {share.layer for share in shares}
        _check(called, shares, roles, shapes)
        stated.check(shares[0].layer, has_magnitudes=not roles.keys().isdisjoint(_MAGNITUDES))
    return found


def _refuse_others(header: Header) -> None:
    for name in header.tensors:
        for part, reason in _OTHERS.items():
            if part in name:
                raise WeightsRefused(f"{name}: {reason}")


def _by_layer(header: Header, names: Mapping[str, tuple[LayerRows, ...]]) -> _Found:
    found: _Found = {}
    for name, entry in header.tensors.items():
        if name == _MARKER:
            continue
        role = _NAME.fullmatch(name)
        shares = names.get(role["layer"]) if role else None
        if role is None or shares is None:
            raise WeightsRefused(f"{name}: the model has no such layer")
        roles, which = found.setdefault(shares, {}), str(role.lastgroup)
        if which in roles:
            raise WeightsRefused(f"{name}: a second {which} for {shares[0].layer}")
        roles[which] = entry
    return found


def _check(
    called: str, shares: tuple[LayerRows, ...], roles: Mapping[str, TensorEntry], shapes: Shapes
) -> None:
    own = [shapes[share.layer] for share in shares]
    form, out = form_of(called, roles), sum(shape[0] for shape in own)
    check_shapes(called, form, roles, (out, *own[0][1:]), is_whole=len(shares) == 1)
    for share in shares:
        if not roles.keys().isdisjoint({"diff_b", "up_bias"}) and share.layer + BIAS not in shapes:
            raise WeightsRefused(f"{share.layer}: a bias in the file, but none in the model")


def _changes(
    data: Bytes,
    shares: tuple[LayerRows, ...],
    roles: Mapping[str, TensorEntry],
    stated: StatedAlphas,
) -> Iterator[LayerChange]:
    layer = shares[0].layer
    form = form_of(layer, roles)
    rank, scale = rank_of(form, roles), 1.0
    if rank is not None:
        alpha = _scalar(data, layer, roles["alpha"]) if "alpha" in roles else None
        scale = stated.scale(layer, alpha, rank)
    for name in roles.keys() & {"down_scale", "up_scale"}:
        scale *= _scalar(data, layer, roles[name])
    tensors = {name: entry for name, entry in roles.items() if name not in _NUMBERS}
    for share in shares:
        yield LayerChange(
            layer=share.layer, form=form, tensors=tensors, scale=scale, rows=share.rows
        )


def _scalar(data: Bytes, layer: str, entry: TensorEntry) -> float:
    raw, dtype = _widened(bytes(data[entry.begin : entry.end]), entry.dtype)
    if math.prod(entry.shape) != 1 or dtype not in _SCALARS:
        raise WeightsRefused(f"{layer}: alpha is {entry.dtype}{list(entry.shape)}, not one number")
    value = float(struct.unpack(_SCALARS[dtype], raw)[0])
    if not math.isfinite(value):
        raise WeightsRefused(f"{layer}: alpha is {value}")
    return value


def _widened(raw: bytes, dtype: str) -> tuple[bytes, str]:
    """Write a number as a wider one: the bits of some formats are the first of another's."""
    match dtype:
        case "BF16":
            return b"\0\0" + raw, "F32"
        case "F8_E5M2":
            return b"\0" + raw, "F16"
        case "F8_E4M3" if len(raw) == 1:
            power, bits = raw[0] >> 3 & 15, raw[0] & 7
            size = math.ldexp(bits + 8 * (power > 0), max(power, 1) - 10)
            size = math.nan if raw[0] & 127 == 127 else size
            return struct.pack("<d", math.copysign(size, -(raw[0] >> 7) or 1)), "F64"
    return raw, dtype
