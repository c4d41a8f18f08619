"""Changes of one layer as tensors: short products, or wholes that only merging can apply.

A product costs little beside its layer, row by row; its factors are rows of a file where a
published layer is several of ours. LoHa, LoKr, differences and DoRA have no short factors: DoRA's
change depends on the weight itself, as in peft (`peft/tuners/lora/dora.py`). Those of Tucker's form
may be a thousand times as large as what is written: they are made where they are merged.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import vector_norm

from catalog.lora.forms import Form, is_by_input
from catalog.lora.names import Rows
from catalog.lora.parse import LayerChange

_DTYPES = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
_MAGNITUDES = ("magnitude", "dora_scale")
#: What makes a whole of two factors: the lengths of DoRA, the core of Tucker's form.
_WHOLE = {*_MAGNITUDES, "mid"}


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """The change of one layer's weight: `scale * up @ down`."""

    down: Tensor  #: [r, in], or [r, in, k, k] of a convolution
    up: Tensor  #: [out, r]
    scale: float
    bias: Tensor | None = None  #: [out], what the layer adds beside, already scaled


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """A change that is known only as a whole."""

    form: Form
    tensors: Mapping[str, Tensor]  #: by what they are for, as in the file
    scale: float
    rows: Rows  #: of what the tensors make; all if empty

    def weight(self, original: Tensor, strength: float) -> Tensor:
        """Compute the change of a weight. Shapes: [out, in] or [out, in, k, k], single precision.

        Raises: RuntimeError if the tensors are none of such a weight.
        """
        own = original.float()
        made = _pick(_make(self.form, self._read(own), own), self.rows).view_as(own)
        made = made * (self.scale * strength)
        for name in _MAGNITUDES:
            if name in self.tensors:
                return _decompose(own, made, self._magnitudes(name, own))
        return made

    def bias(self, like: Tensor) -> Tensor | None:
        """Give what is added beside, at full strength. Shapes: [out], single precision."""
        tensors = {name: each.to(like.device) for name, each in self.tensors.items()}
        return _bias(tensors, self.scale, self.rows)

    def _read(self, like: Tensor) -> dict[str, Tensor]:
        return {name: each.to(like.device, torch.float32) for name, each in self.tensors.items()}

    def _magnitudes(self, name: str, like: Tensor) -> Tensor:
        found = self.tensors[name].to(like.device, torch.float32)
        if name == "dora_scale" and is_by_input(tuple(found.shape), tuple(like.shape)):
            return found.reshape(1, -1)
        return _pick(found.reshape(-1, 1), self.rows)


def read_change(data: Tensor, change: LayerChange) -> Product | Whole:
    """Look at the bytes of a file as the tensors of one change, without copying them if it can."""
    tensors = {
        name: _aligned(data[entry.begin : entry.end]).view(_DTYPES[entry.dtype]).view(entry.shape)
        for name, entry in change.tensors.items()
    }
    if change.form not in (Form.LORA, Form.BIAS) or not tensors.keys().isdisjoint(_WHOLE):
        return Whole(change.form, tensors, change.scale, change.rows)
    bias = _bias(tensors, change.scale, change.rows)
    if change.form is Form.BIAS:
        assert bias is not None
        return Product(torch.zeros(0, 1), torch.zeros(len(bias), 0), 1.0, bias)
    up = _pick(tensors["up"].flatten(1), change.rows)
    return Product(tensors["down"], up, change.scale, bias)


def _aligned(data: Tensor) -> Tensor:
    """Copy what does not begin where its numbers can: files may be written so."""
    return data if data.storage_offset() % 4 == 0 else data.clone()


def _pick(made: Tensor, rows: Rows) -> Tensor:
    """Take rows in this order, as a view if they follow each other."""
    if not rows:
        return made
    parts = [made[begin:end] for begin, end in rows]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _bias(tensors: Mapping[str, Tensor], scale: float, rows: Rows) -> Tensor | None:
    """Add up what is written for a bias: peft scales its own, a difference is as it is."""
    found = [
        tensors[name].float() * factor
        for name, factor in (("up_bias", scale), ("diff_b", 1.0))
        if name in tensors
    ]
    return _pick(torch.stack(found).sum(0), rows) if found else None


def _down(tensors: Mapping[str, Tensor]) -> Tensor:
    """Give the lower factor; in Tucker's form its two stages as one."""
    down = tensors["down"]
    if "mid" not in tensors:
        return down
    return torch.einsum("mn...,ni->mi...", tensors["mid"], down.flatten(1))


def _make(form: Form, tensors: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """Shapes: [out, ...] of the layer as it was published."""
    match form:
        case Form.LORA:
            return tensors["up"].flatten(1) @ _down(tensors).flatten(1)
        case Form.LOHA:
            first, second = (_rebuilt(tensors, f"hada_w{n}", f"hada_t{n}") for n in "12")
            return first * second
        case Form.LOKR:
            return _kronecker(tensors, like)
    return tensors["diff"].flatten(1)


def _kronecker(tensors: Mapping[str, Tensor], like: Tensor) -> Tensor:
    first = tensors.get("lokr_w1")
    first = tensors["lokr_w1_a"] @ tensors["lokr_w1_b"] if first is None else first.flatten(1)
    second = tensors.get("lokr_w2")
    second = _rebuilt(tensors, "lokr_w2", "lokr_t2") if second is None else second
    kernel = like.shape[2:]
    second = second.reshape(len(second), -1, *kernel)
    return torch.kron(first.view(*first.shape, *[1] * len(kernel)), second).flatten(1)


def _rebuilt(tensors: Mapping[str, Tensor], name: str, core: str) -> Tensor:
    """Multiply two factors, around a core in Tucker's form. Shapes: [out, in * k * k]."""
    a, b = tensors[f"{name}_a"], tensors[f"{name}_b"]
    if core not in tensors:
        return a @ b
    return torch.einsum("ij...,ip,jr->pr...", tensors[core], a, b).flatten(1)


def _decompose(own: Tensor, made: Tensor, magnitudes: Tensor) -> Tensor:
    """Give the rows, or columns, of a changed weight these lengths, and take the weight off.

    Shapes: magnitudes [out, 1], or [1, in]
    """
    changed = own + made
    if magnitudes.shape[1] > 1:
        lengths = vector_norm(changed.transpose(0, 1).flatten(1), dim=1).view(1, -1)
    else:
        lengths = vector_norm(changed.flatten(1), dim=1).view(-1, 1)
    factor = (magnitudes / lengths).view(-1, magnitudes.shape[1], *[1] * (own.ndim - 2))
    difference: Tensor = changed * factor - own
    return difference
