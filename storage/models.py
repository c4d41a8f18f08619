"""Which models are on disk: one folder each, described by its `atelier.json`."""

from dataclasses import fields
from pathlib import Path

import msgspec

from core.errors import ConfigurationError
from core.variant import Model
from storage.codec import decode

FILE = "atelier.json"


def read_models(folder: Path) -> dict[str, Model]:
    """Read every model of a folder, by name.

    Raises:
        ConfigurationError: a file cannot be read, or two describe one name; it names the file.
    """
    models: dict[str, Model] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        model = read_model(path)
        if model.name in models:
            raise ConfigurationError(f"{path}: a second model is named {model.name!r}")
        models[model.name] = model
    return models


def read_model(path: Path) -> Model:
    """Read one `atelier.json`.

    Raises:
        ConfigurationError: it cannot be read, or has a field that models do not have.
    """
    try:
        given = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
        unknown = sorted(given.keys() - {f.name for f in fields(Model)})
        if unknown:
            raise ConfigurationError(f"{path}: unknown fields {', '.join(unknown)}")
        return decode(path.read_bytes(), Model)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
