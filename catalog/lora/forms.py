"""Tell the forms of a layer's change apart by its tensors, and check their shapes. Pure.

Forms as peft, sd-scripts and LyCORIS write them (https://github.com/KohakuBlueleaf/LyCORIS); of a
weight [out, in, *kernel]:

    LoRA  up @ down, up @ (mid * down) in Tucker's form     times alpha / rank
    LoHa  (w1_a @ w1_b) * (w2_a @ w2_b), or each rebuilt by t1, t2      likewise
    LoKr  kron(w1, w2), either whole or a product      likewise; 1 if both are whole
    diff  a difference of the whole weight

Beside each: DoRA's magnitudes, and a difference of the bias.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import prod

from catalog.safetensors_header import TensorEntry
from core.errors import WeightsRefused

Shape = tuple[int, ...]
Roles = Mapping[str, TensorEntry]

#: Formats of numbers that factors are read in.
FACTORS = {"F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}

#: Rank that any factors may have; those of a larger weight may have that of the weight. Without a
#: bound a few numbers in Tucker's form stand for as much as all memory holds.
MAX_RANK = 512
#: Tensors that say a rank, and which of their sides does.
_RANKS = {"up": 1} | dict.fromkeys(
    ("down", "hada_w1_b", "hada_w2_b", "lokr_w1_b", "lokr_w2_b", "lokr_t2"), 0
)


class Form(StrEnum):
    """How a change of a layer is written down."""

    LORA = "LoRA"  #: two factors
    LOHA = "LoHa"  #: two products of two factors, multiplied number by number
    LOKR = "LoKr"  #: a product of Kronecker
    DIFF = "diff"  #: the change itself
    BIAS = "bias"  #: none of the weight


#: What each form has, and may have beside what all may have.
_MUST = {
    Form.LORA: {"down", "up"},
    Form.LOHA: {"hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"},
    Form.LOKR: set[str](),
    Form.DIFF: {"diff"},
    Form.BIAS: {"diff_b"},
}
_MAY = {
    Form.LORA: {"mid", "up_bias", "down_scale", "up_scale"},
    Form.LOHA: {"hada_t1", "hada_t2"},
    Form.LOKR: {f"lokr_{w}{end}" for w in ("w1", "w2") for end in ("", "_a", "_b")} | {"lokr_t2"},
    Form.DIFF: set[str](),
    Form.BIAS: set[str](),
}
_ALL = {"alpha", "dora_scale", "magnitude", "diff_b"}


def form_of(called: str, roles: Roles) -> Form:
    """Tell what a layer's tensors are.

    Raises: WeightsRefused if they are none, or two, of these.
    """
    for form in Form:
        if own := roles.keys() & (_MUST[form] | _MAY[form]):
            if missing := _MUST[form] - roles.keys():
                raise WeightsRefused(f"{called}: {min(missing)} is missing, of a {form}")
            if other := roles.keys() - own - _ALL:
                raise WeightsRefused(f"{called}: {min(other)} beside a {form}")
            if form is Form.BIAS and (other := roles.keys() - {"diff_b"}):
                raise WeightsRefused(f"{called}: {min(other)} without a change of the weight")
            return form
    raise WeightsRefused(f"{called}: {min(roles)} alone says nothing")


def rank_of(form: Form, roles: Roles) -> int | None:
    """Tell by what alpha is divided; None where it does not count."""
    last = {
        Form.LORA: ("down",),
        Form.LOHA: ("hada_w1_b",),
        Form.LOKR: ("lokr_w2_b", "lokr_w1_b"),
    }.get(form, ())
    return next((roles[name].shape[0] for name in last if name in roles), None)


def check_shapes(called: str, form: Form, roles: Roles, weight: Shape, *, is_whole: bool) -> None:
    """Check tensors against the weight that they are for. Raises: WeightsRefused.

    `is_whole`: whether the weight is one of ours, not published with others in it.
    """
    for name, entry in roles.items():
        if name not in ("alpha", "down_scale", "up_scale") and entry.dtype not in FACTORS:
            known = "F32, F16, BF16, F8_E4M3 or F8_E5M2"
            raise WeightsRefused(f"{called}: {name} is kept as {entry.dtype}, not as {known}")
    shapes = {name: entry.shape for name, entry in roles.items()}
    {Form.LORA: _check_lora, Form.LOHA: _check_loha, Form.LOKR: _check_lokr}.get(form, _check_diff)(
        called, shapes, weight
    )
    _check_ranks(called, shapes, weight)
    for name in roles.keys() & {"diff_b", "up_bias"}:
        _check(called, name, shapes[name], (weight[0],), weight)
    _check_magnitudes(called, shapes, weight, is_whole=is_whole)


def is_by_input(magnitudes: Shape, weight: Shape) -> bool:
    """Tell whether `dora_scale` counts columns of a weight, as LyCORIS has it unless told."""
    return len(magnitudes) > 1 and magnitudes[0] == 1 and (weight[0] > 1 or weight[1] > 1)


def _check_ranks(called: str, shapes: Mapping[str, Shape], weight: Shape) -> None:
    most = max(MAX_RANK, min(weight[:2]))
    for name, side in _RANKS.items():
        if name in shapes and (rank := shapes[name][side]) > most:
            raise WeightsRefused(
                f"{called}: rank {rank}, the weight {weight}; at most {most} is read"
            )


def _check_magnitudes(
    called: str, shapes: Mapping[str, Shape], weight: Shape, *, is_whole: bool
) -> None:
    if {"dora_scale", "magnitude"} <= shapes.keys():
        raise WeightsRefused(f"{called}: magnitudes of DoRA twice")
    if (found := shapes.get("magnitude")) and prod(found) != weight[0]:
        raise WeightsRefused(f"{called}: magnitudes are {found}, the weight {weight}")
    if (found := shapes.get("dora_scale")) is None:
        return
    by_input = is_by_input(found, weight)
    if prod(found) != weight[1 if by_input else 0]:
        raise WeightsRefused(f"{called}: dora_scale is {found}, the weight {weight}")
    if by_input and not is_whole:
        raise WeightsRefused(
            f"{called}: DoRA by columns of a layer that is several here cannot be divided: "
            "train it with wd_on_output, or merge it into a model"
        )


def _check_lora(called: str, shapes: Mapping[str, Shape], weight: Shape) -> None:
    down, up = shapes["down"], shapes["up"]
    rank = down[0] if down else 0
    if "mid" in shapes:
        _check(called, "down", down, (rank, weight[1]), weight)
        _check(called, "mid", shapes["mid"], (up[1] if len(up) > 1 else 0, rank, *weight[2:]),
               weight)  # fmt: skip
        rank = up[1] if len(up) > 1 else 0
    elif rank < 1 or not is_alike(down, (rank, *weight[1:])):
        raise WeightsRefused(f"{called}: down is {down}, the weight {weight}")
    if rank < 1 or not is_alike(up, (weight[0], rank)):
        raise WeightsRefused(f"{called}: up is {up}, the weight {weight}, down {down}")


def _check_loha(called: str, shapes: Mapping[str, Shape], weight: Shape) -> None:
    if ("hada_t1" in shapes) != ("hada_t2" in shapes):
        raise WeightsRefused(f"{called}: one of hada_t1 and hada_t2 is missing")
    for which in "12":
        a, b, core = (
            shapes.get(f"hada_{name}") for name in (f"w{which}_a", f"w{which}_b", f"t{which}")
        )
        rank = b[0] if b else 0
        if core is None:
            _check(called, f"hada_w{which}_a", a, (weight[0], rank), weight)
            _check(called, f"hada_w{which}_b", b, (rank, prod(weight[1:])), weight)
        else:
            _check(called, f"hada_w{which}_a", a, (rank, weight[0]), weight)
            _check(called, f"hada_w{which}_b", b, (rank, weight[1]), weight)
            _check(called, f"hada_t{which}", core, (rank, rank, *weight[2:]), weight)


def _check_lokr(called: str, shapes: Mapping[str, Shape], weight: Shape) -> None:
    first, second = (_factor(called, shapes, which) for which in ("lokr_w1", "lokr_w2"))
    kernel = int(prod(weight[2:]))
    if "lokr_t2" in shapes:
        if "lokr_w2" in shapes:
            raise WeightsRefused(f"{called}: lokr_t2 beside a lokr_w2 that is whole")
        core, a, b = shapes["lokr_t2"], shapes["lokr_w2_a"], shapes["lokr_w2_b"]
        _check(called, "lokr_t2", core, (a[0], b[0], *weight[2:]), weight)
        second = (a[1], b[1] * kernel)
    made = (first[0] * second[0], first[1] * second[1])
    if made != (weight[0], prod(weight[1:])) or second[1] % kernel:
        raise WeightsRefused(f"{called}: lokr makes {made}, the weight is {weight}")


def _factor(called: str, shapes: Mapping[str, Shape], name: str) -> tuple[int, int]:
    """Tell the sides of a factor, its kernel flat, which is whole or a product of two."""
    whole, a, b = (shapes.get(f"{name}{end}") for end in ("", "_a", "_b"))
    if whole is not None and a is None and b is None and len(whole) > 1:
        return whole[0], prod(whole[1:])
    if whole is None and a is not None and b is not None and len(a) == len(b) == 2:
        is_tucker = name == "lokr_w2" and "lokr_t2" in shapes
        if prod(a) and prod(b) and (is_tucker or a[1] == b[0]):
            return a[0], b[1]
    raise WeightsRefused(f"{called}: {name} is to be whole, or {name}_a and {name}_b that fit")


def _check_diff(called: str, shapes: Mapping[str, Shape], weight: Shape) -> None:
    if "diff" in shapes:
        _check(called, "diff", shapes["diff"], weight, weight)


def _check(called: str, name: str, shape: Shape | None, wanted: Shape, weight: Shape) -> None:
    if shape is None or not is_alike(shape, wanted) or not prod(wanted):
        raise WeightsRefused(f"{called}: {name} is {shape}, the weight {weight}")


def is_alike(shape: Shape, wanted: Shape) -> bool:
    """Tell whether shapes are the same but for sides of one at the end."""
    return _cut(shape) == _cut(wanted)


def _cut(shape: Shape) -> Shape:
    last = max((at for at, side in enumerate(shape) if side != 1), default=0)
    return tuple(shape[: max(last + 1, 2)])
