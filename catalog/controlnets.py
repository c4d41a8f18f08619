"""Read the ControlNets on disk: one folder each, described by its `atelier.json`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from catalog.models import FILE
from catalog.weights import CONTROLNETS
from core.codec import decode
from core.errors import ConfigurationError
from core.uploads.controlnet import ControlNet

_CONFIG = "config.json"  #: as diffusers writes it
#: Class of diffusers -> what its config calls the kinds of pictures that it tells apart.
_MODES = {"ControlNetUnionModel": "num_control_type", "FluxControlNetModel": "num_mode"}


def read_controlnets(folder: Path) -> dict[str, ControlNet]:
    """Read every ControlNet of a folder, by name; its own folder has that name too.

    Raises:
        ConfigurationError: a file cannot be read, names another folder, or is of a kind that is not
            served; it names the file.
    """
    found: dict[str, ControlNet] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        try:
            controlnet = decode(path.read_bytes(), ControlNet)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigurationError(f"{path}: {error}") from error
        if controlnet.name != path.parent.name:
            raise ConfigurationError(f"{path}: its folder must be named {controlnet.name!r}")
        found[controlnet.name] = _described(controlnet, path.parent)
    return found


def count_modes(config: Mapping[str, object]) -> int:
    """Say how many kinds of pictures a ControlNet tells apart; none where all are of one kind."""
    count = config.get(_MODES.get(str(config.get("_class_name")), ""))
    return count if isinstance(count, int) else 0


def is_t2i_adapter(config: Mapping[str, object]) -> bool:
    """Tell a T2I-Adapter from a ControlNet."""
    return config.get("_class_name") == "T2IAdapter"


def _described(controlnet: ControlNet, folder: Path) -> ControlNet:
    """Add what its config tells. Raises: ConfigurationError for one that is not served."""
    try:
        config = msgspec.json.decode((folder / _CONFIG).read_bytes(), type=dict[str, object])
    except (OSError, msgspec.MsgspecError):
        return controlnet  # whoever loads it says what is wrong
    if fault := _why_not(config):
        raise ConfigurationError(f"{folder / _CONFIG}: {fault}")
    return replace(controlnet, modes=count_modes(config), is_adapter=is_t2i_adapter(config))


def _why_not(config: Mapping[str, object]) -> str | None:
    """Say why a ControlNet with this config is not served, if it is not, and what is."""
    kind = config.get("_class_name")
    if kind not in CONTROLNETS:
        return f"a {kind} is not served: use a {' or '.join(CONTROLNETS)}"
    if config.get("global_pool_conditions"):
        return "it pools its condition, and is not served: use one that does not"
    if config.get("extra_conditioning_channels"):
        return "it reads a mask beside its condition: use one that does not, with task 'edit'"
    if kind == "SD3ControlNetModel" and config.get("joint_attention_dim", 0) is None:
        return "it shares parts of its model, and is not served: use one with all its parts"
    if config.get("conditioning_embedding_channels") is not None:
        return "it reads pixels, as XLabs' do: use one that reads latents, as InstantX's do"
    return None
