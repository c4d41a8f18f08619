"""Random ESRGAN networks, named as they have been published."""

import json
import re

import torch
from safetensors.torch import save_file


def weights(*, features=8, growth=4, blocks=1, unshuffle=1, ups=2, seed=0):
    """Tensors of an RRDBNet, by Real-ESRGAN's names: of a picture in, about one out."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"conv_first": (features, 3 * unshuffle**2), "conv_last": (3, features)}
    shapes |= dict.fromkeys(("conv_body", "conv_hr"), (features, features))
    shapes |= {f"conv_up{each}": (features, features) for each in range(1, ups + 1)}
    for block in range(blocks):
        for dense in (1, 2, 3):
            for conv in range(1, 6):
                made = growth if conv < 5 else features
                given = features + (conv - 1) * growth
                shapes[f"body.{block}.rdb{dense}.conv{conv}"] = (made, given)
    tensors = {}
    for name, (made, given) in shapes.items():
        spread = (9 * given) ** -0.5
        tensors[f"{name}.weight"] = torch.randn(made, given, 3, 3, generator=generator) * spread
        tensors[f"{name}.bias"] = torch.randn(made, generator=generator) * 0.1
    tensors["conv_last.bias"] += 0.5
    return tensors


def as_bsrgan(tensors):
    """Rename as BSRGAN and Real-SR name them."""
    return {_renamed(name, _BSRGAN): each for name, each in tensors.items()}


def as_first_esrgan(tensors):
    """Rename as the first ESRGAN has them: by their places in a sequence."""
    blocks = 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("body."))
    ends = {"conv_up1": 3, "conv_up2": 6, "conv_hr": 8, "conv_last": 10}
    if "conv_up2.weight" not in tensors:
        ends = {"conv_up1": 3, "conv_hr": 5, "conv_last": 7}
    rules = {r"body\.(\d+)\.rdb(\d)\.(conv\d)": r"model.1.sub.\1.RDB\2.\3.0"}
    rules |= {"conv_first": "model.0", "conv_body": f"model.1.sub.{blocks}"}
    rules |= {name: f"model.{number}" for name, number in ends.items()}
    return {_renamed(name, rules): each for name, each in tensors.items()}


_BSRGAN = {
    r"body\.(\d+)\.rdb(\d)": r"RRDB_trunk.\1.RDB\2",
    "conv_body": "trunk_conv",
    "conv_up": "upconv",
    "conv_hr": "HRconv",
}
NAMINGS = {"BSRGAN": as_bsrgan, "ESRGAN": as_first_esrgan}


def _renamed(name, rules):
    for old, new in rules.items():
        name, found = re.subn(f"^{old}", new, name)
        if found:
            break
    return name


def write_upscaler(folder, tensors):
    """Write a model folder as `atelier models add` makes it of a file."""
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "atelier.json").write_text(json.dumps({"name": folder.name, "family": "esrgan"}))
    return folder
