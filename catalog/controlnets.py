"""Read the ControlNets on disk: one folder each, described by its `atelier.json`."""

from pathlib import Path

import msgspec

from catalog.models import FILE
from core.errors import ConfigurationError
from core.uploads.controlnet import ControlNet


def read_controlnets(folder: Path) -> dict[str, ControlNet]:
    """Read every ControlNet of a folder, by name; its own folder has that name too.

    Raises:
        ConfigurationError: a file cannot be read, or names another folder; it names the file.
    """
    found: dict[str, ControlNet] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        try:
            controlnet = msgspec.json.decode(path.read_bytes(), type=ControlNet)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigurationError(f"{path}: {error}") from error
        if controlnet.name != path.parent.name:
            raise ConfigurationError(f"{path}: its folder must be named {controlnet.name!r}")
        found[controlnet.name] = controlnet
    return found
