"""Read the models on disk: a stock pipeline folder each, perhaps with an `atelier.json`.

What a model makes and takes is derived from its folder (`description.folder`); its `atelier.json`
may say some of it otherwise. A folder of a family without weights has nothing but that file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import msgspec

from catalog.config_file import read_bytes
from catalog.description.folder import INDEX, Description, describe
from catalog.description.upscaler import FAMILY as UPSCALER
from catalog.description.upscaler_folder import describe_upscaler, weights_of
from core.codec import decode
from core.errors import AtelierError, ConfigurationError, ModelRefused
from core.log import get_logger
from core.model import Model

log = get_logger(__name__)

FILE = "atelier.json"
#: What reading configurations raises that hold anything but what is expected.
_ODD = (
    *(ArithmeticError, AttributeError, LookupError, OSError),
    *(RecursionError, TypeError, ValueError),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a models folder holds."""

    models: Mapping[str, Model]  #: by name
    refused: Mapping[str, str]  #: name of a folder -> why it is no model, and what would help
    descriptions: Mapping[str, Description]  #: of the models with weights, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadModel:
    """One model and what is known of its folder; None where it has no weights."""

    model: Model
    description: Description | None = None


def read_models(folder: Path) -> dict[str, Model]:
    """Read every model of a folder, by name; folders that cannot be served are left out.

    Raises:
        ConfigurationError: an `atelier.json` is wrong, or two describe one name; it names the file.
    """
    models: dict[str, Model] = {}
    for path in candidates(folder):
        try:
            found = read_whatever(path).model
        except ModelRefused:
            continue
        if found.name in models:
            raise ConfigurationError(f"{path / FILE}: a second model is named {found.name!r}")
        models[found.name] = found
    return models


def survey(folder: Path) -> Survey:
    """Read every model of a folder that can be read, and say of the others why they cannot."""
    models: dict[str, Model] = {}
    refused: dict[str, str] = {}
    descriptions: dict[str, Description] = {}
    for path in candidates(folder):
        try:
            found = read_whatever(path)
        except (ConfigurationError, ModelRefused) as error:
            refused[path.name] = str(error)
            continue
        name = found.model.name
        if name in models:
            refused[path.name] = f"{path / FILE}: a second model is named {name!r}"
            continue
        models[name] = found.model
        if found.description is not None:
            descriptions[name] = found.description
    return Survey(models=models, refused=refused, descriptions=descriptions)


def candidates(folder: Path) -> Iterator[Path]:
    """List the folders, and links to folders, that may be models, by name."""
    if folder.is_dir():
        yield from sorted(path for path in folder.glob("[!.]*/") if path.is_dir())


def served_models(folder: Path) -> dict[str, Model]:
    """Read the models that a service is to make images with.

    Raises:
        ConfigurationError: there is none, or one cannot be read.
    """
    models = read_models(folder)
    if not models:
        raise ConfigurationError(
            f"{folder} has no model: add one by `atelier models add FOLDER` (of diffusers' layout, "
            "or a .safetensors checkpoint), or name another place by ATELIER_MODELS_DIR"
        )
    return models


def warn_of_undescribed(folder: Path) -> None:
    """Log which folders are no models, for whoever wonders where one is."""
    for name, reason in undescribed(folder).items():
        log.warning("folder_not_served", folder=str(folder / name), reason=reason)


def undescribed(folder: Path) -> Mapping[str, str]:
    """Say of each folder that is no model why."""
    return survey(folder).refused


def read_whatever(folder: Path, name: str | None = None) -> ReadModel:
    """Read one folder, whatever strangers have left in it: one of them must not end a service.

    Raises: as `read_found`, which it calls.
    """
    try:
        return read_found(folder, name)
    except AtelierError:
        raise
    except _ODD as error:
        log.exception("folder_not_described", folder=str(folder))
        raise ModelRefused(
            f"its configurations are not as diffusers writes them ({type(error).__name__}: {error})"
        ) from error


def read_found(folder: Path, name: str | None = None) -> ReadModel:
    """Read one folder; `name` is what it is to be called, else it is called as it says.

    Raises:
        ConfigurationError: its `atelier.json` cannot be read, or has a field that models lack.
        ModelRefused: it cannot be served; says why, and what would help.
    """
    path = folder / FILE
    given = _given(path) if path.is_file() else {}
    if name is None:
        name = folder.name if folder.is_symlink() else _name(given)
    if given.get("family") == UPSCALER:
        found = describe_upscaler(weights_of(folder), name or folder.name)
        given = {**given, "scale": found.model.scale}
    elif given and not (folder / INDEX).is_file():
        return ReadModel(model=_decode(path, given | ({"name": name} if name else {})))
    else:
        found = describe(folder, name)
    derived = asdict(found.model)
    model = _decode(path, {**derived, **given, "name": found.model.name})
    return ReadModel(model=model, description=replace(found, model=model))


def _name(given: Mapping[str, object]) -> str | None:
    name = given.get("name")
    return name if isinstance(name, str) else None


def _given(path: Path) -> dict[str, object]:
    try:
        given = msgspec.json.decode(read_bytes(path), type=dict[str, object])
    except (OSError, RecursionError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    unknown = sorted(given.keys() - {f.name for f in fields(Model)})
    if unknown:
        raise ConfigurationError(f"{path}: unknown fields {', '.join(unknown)}")
    return given


def _decode(path: Path, whole: Mapping[str, object]) -> Model:
    try:
        return decode(msgspec.json.encode(whole), Model)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"{path}: {error}") from error
