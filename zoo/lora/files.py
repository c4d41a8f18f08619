"""Write and read LoRA files, and verify that a file is complete."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from zoo.lora.kohya import layer_name
from zoo.lora.styles import Form, Style

_KOHYA_SIDES = {"lora_A": "lora_down", "lora_B": "lora_up"}


class LoraFileError(ValueError):
    """A file does not hold the LoRA it should; names the file and the reason."""


def save(path: Path, weights: Mapping[str, Tensor], style: Style, layers_per_block: int) -> None:
    """Write a half-precision file in the style's form, whole or not at all."""
    keys = _keys(weights, style.form, layers_per_block)
    tensors = {keys[name]: weight.half().contiguous() for name, weight in weights.items()}
    if style.form is Form.KOHYA:
        tensors |= {key: torch.tensor(style.alpha).half() for key in _alpha_keys(keys.values())}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, metadata=_metadata(style))
    partial.chmod(0o644)
    partial.rename(path)


def read(path: Path, names: Iterable[str], layers_per_block: int) -> dict[str, Tensor]:
    """Read weights by the names that a pipeline gives them, in single precision.

    Raises: LoraFileError if one is missing, or the file has one that nobody asked for.
    """
    tensors = load_file(path)
    form = Form.KOHYA if any(key.startswith("lora_unet_") for key in tensors) else Form.PEFT
    keys = _keys(names, form, layers_per_block)
    wanted = set(keys.values()) | (_alpha_keys(keys.values()) if form is Form.KOHYA else set())
    if wanted != tensors.keys():
        missing, extra = len(wanted - tensors.keys()), len(tensors.keys() - wanted)
        raise LoraFileError(f"{path}: {missing} tensors missing, {extra} unknown")
    return {name: tensors[key].float() for name, key in keys.items()}


def _keys(names: Iterable[str], form: Form, layers_per_block: int) -> dict[str, str]:
    if form is Form.PEFT:
        return {name: name for name in names}
    return {name: _kohya_key(name, layers_per_block) for name in names}


def _kohya_key(name: str, layers_per_block: int) -> str:
    layer, side, weight = name.rsplit(".", 2)
    return f"{layer_name(layer, layers_per_block)}.{_KOHYA_SIDES[side]}.{weight}"


def _alpha_keys(keys: Iterable[str]) -> set[str]:
    return {f"{key.split('.')[0]}.alpha" for key in keys}


def _metadata(style: Style) -> dict[str, str]:
    """Say what the form's own tools say of a file."""
    if style.form is Form.PEFT:
        return {"format": "pt"}
    return {
        "ss_network_module": "networks.lora",
        "ss_network_dim": str(style.rank),
        "ss_network_alpha": str(style.alpha),
    }
