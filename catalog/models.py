"""Read the models on disk: one folder each, described by its `atelier.json`."""

from dataclasses import fields
from pathlib import Path

import msgspec

from core.codec import decode
from core.errors import ConfigurationError
from core.log import get_logger
from core.model import Model

log = get_logger(__name__)

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


def served_models(folder: Path) -> dict[str, Model]:
    """Read the models that a service is to make images with.

    Raises:
        ConfigurationError: there is none, or one cannot be read.
    """
    models = read_models(folder)
    if not models:
        raise ConfigurationError(
            f"{folder} has no model: put a folder of diffusers' layout there, with an {FILE} in "
            "it, or name another place by ATELIER_MODELS_DIR"
        )
    return models


def warn_of_undescribed(folder: Path) -> None:
    """Log which folders are no models, for whoever wonders where one is."""
    for path in undescribed(folder):
        log.warning("folder_not_served", folder=str(path), missing=FILE)


def undescribed(folder: Path) -> list[Path]:
    """List the folders that are no models because nothing describes them."""
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.glob("[!.]*/")) if not (path / FILE).is_file()]


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
