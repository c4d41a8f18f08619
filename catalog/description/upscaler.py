"""Recognise ESRGAN's network (RRDBNet) by the names and shapes of its tensors. No torch.

Names as Real-ESRGAN publishes them, as BSRGAN and Real-SR do, and as the first ESRGAN did
(`model.1.sub.0.RDB1.conv1.0.weight`); all three are one network.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from catalog.description.tensors import Tensor
from core.errors import ModelRefused

#: A family without a prompt; the name of its row in `core.family`.
FAMILY = "esrgan"
DENSE, CONVS = 3, 5  #: dense blocks of a block, convolutions of each
#: Halvings of the picture that a network may begin with, its pixels laid into channels.
_UNSHUFFLES = (1, 2, 4)

_REAL = re.compile(r"body\.(\d+)\.rdb(\d)\.conv(\d)\.(weight|bias)")
_TRUNK = re.compile(r"RRDB_trunk\.(\d+)\.RDB(\d)\.conv(\d)\.(weight|bias)")
_OLD = re.compile(r"model\.1\.sub\.(\d+)\.RDB(\d)\.conv(\d)\.0\.(weight|bias)")
_OLD_TRUNK = re.compile(r"model\.1\.sub\.\d+\.(weight|bias)")
#: Names of the other layers, by the first part of those of their tensors.
_OTHERS = {"trunk_conv": "conv_body", "upconv1": "conv_up1", "upconv2": "conv_up2"}
_OTHERS |= {"HRconv": "conv_hr", "model.0": "conv_first"}
#: Of the first ESRGAN, which numbers them: twice the size, and four times.
_OLD_ENDS = {
    7: {"model.3": "conv_up1", "model.5": "conv_hr", "model.7": "conv_last"},
    10: {
        "model.3": "conv_up1",
        "model.6": "conv_up2",
        "model.8": "conv_hr",
        "model.10": "conv_last",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upscaler:
    """An RRDBNet."""

    names: Mapping[str, str]  #: of each tensor of the file, the one that Real-ESRGAN gives it
    features: int  #: channels
    growth: int  #: channels that each convolution of a dense block adds
    blocks: int
    unshuffle: int  #: the picture is made so many times smaller at first, with more channels
    doublings: int  #: of the size, at the end

    @property
    def scale(self) -> int:
        """Pixels a side that it makes of each."""
        return int(2**self.doublings) // self.unshuffle


def is_upscaler(names: Mapping[str, object]) -> bool:
    """Tell by names of tensors whether they may be those of an RRDBNet."""
    return any(each.fullmatch(name) for each in (_REAL, _TRUNK, _OLD) for name in names)


def read_upscaler(tensors: Mapping[str, Tensor]) -> Upscaler:
    """Read the network off its tensors.

    Raises:
        ModelRefused: it is another one; names a tensor that it has, or lacks.
    """
    names = _named(tensors)
    shapes = {own: tensors[name].shape for name, own in names.items()}
    found = _measured(names, shapes)
    _check(shapes, _expected(found))
    if found.scale < 1 or 2**found.doublings % found.unshuffle:
        raise ModelRefused("an ESRGAN that makes pictures smaller")
    return found


def _measured(names: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> Upscaler:
    first, grown = (shapes.get(f"{each}.weight", ()) for each in ("conv_first", _layer(0, 1, 1)))
    if len(first) != 4 or len(grown) != 4:
        raise ModelRefused("an ESRGAN without conv_first, or whose layers are no convolutions")
    unshuffle = next((u for u in _UNSHUFFLES if first[1] == 3 * u * u), 0)
    if not unshuffle:
        raise ModelRefused(f"an ESRGAN that reads {first[1]} channels, not a picture's 3")
    return Upscaler(
        names=names,
        features=first[0],
        growth=grown[0],
        blocks=sum(own.endswith("rdb1.conv1.weight") for own in names.values()),
        unshuffle=unshuffle,
        doublings=sum(f"conv_up{each}.weight" in shapes for each in (1, 2)),
    )


def _named(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Give the tensors the names that Real-ESRGAN has for them; others keep theirs."""
    parts = (name.split(".")[1] for name in tensors if name.startswith("model."))
    last = max((int(part) for part in parts if part.isdecimal()), default=0)
    others = _OTHERS | _OLD_ENDS.get(last, {})
    return {name: _own(name, others) for name in tensors}


def _own(name: str, others: Mapping[str, str]) -> str:
    for each in (_REAL, _TRUNK, _OLD):
        if found := each.fullmatch(name):
            block, dense, conv, kind = found.groups()
            return f"{_layer(int(block), int(dense), int(conv))}.{kind}"
    if found := _OLD_TRUNK.fullmatch(name):
        return f"conv_body.{found[1]}"
    layer, _, kind = name.rpartition(".")
    return f"{others.get(layer, layer)}.{kind}"


def _layer(block: int, dense: int, conv: int) -> str:
    return f"body.{block}.rdb{dense}.conv{conv}"


def _expected(net: Upscaler) -> dict[str, tuple[int, ...]]:
    """Say which shapes the weights of such a network have."""
    full, more = net.features, net.growth
    shapes = {
        _layer(block, dense, conv): (
            more if conv < CONVS else full,
            full + (conv - 1) * more,
        )
        for block in range(net.blocks)
        for dense in range(1, DENSE + 1)
        for conv in range(1, CONVS + 1)
    }
    ups = [f"conv_up{each}" for each in range(1, net.doublings + 1)]
    shapes |= dict.fromkeys(("conv_body", *ups, "conv_hr"), (full, full))
    shapes |= {"conv_first": (full, 3 * net.unshuffle**2), "conv_last": (3, full)}
    weights = {f"{name}.weight": (*shape, 3, 3) for name, shape in shapes.items()}
    return weights | {f"{name}.bias": shape[:1] for name, shape in shapes.items()}


def _check(found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> None:
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected:
            raise ModelRefused(f"an ESRGAN with {name}, which RRDBNet does not have: not served")
        if name not in found:
            raise ModelRefused(f"an ESRGAN without {name}: the file is not complete")
        if found[name] != expected[name]:
            sizes = " x ".join(map(str, found[name]))
            raise ModelRefused(f"an ESRGAN whose {name} is {sizes}: RRDBNet has another")
