"""Add an upscaler from its file: copied into a folder among the models, or not at all."""

import json
import shutil
from pathlib import Path

from catalog.adding import aside, check_free, place_made, writing
from catalog.description.upscaler import FAMILY
from catalog.description.upscaler_folder import describe_upscaler
from catalog.models import FILE, ReadModel, read_found

WEIGHTS = "model.safetensors"


def planned_upscaler(file: Path, models: Path, name: str | None = None) -> ReadModel:
    """Say what a file would be served as, and change nothing.

    Raises:
        ModelRefused: it cannot be, or its name is taken; says why, and what would help.
    """
    described = describe_upscaler(file, name or file.stem)
    check_free(models / described.model.name, file)
    return ReadModel(model=described.model, description=described)


def add_upscaler(file: Path, models: Path, name: str | None = None) -> ReadModel:
    """Have a file served as an upscaler.

    Raises:
        ModelRefused: as `planned_upscaler`, or the models folder cannot be written.
    """
    name = planned_upscaler(file, models, name).model.name
    with aside(models, name) as part:
        with writing(models):
            shutil.copyfile(file, part / WEIGHTS)
            (part / FILE).write_text(json.dumps({"name": name, "family": FAMILY}) + "\n")
        found = read_found(part, name)
        place_made(part, models, name, file.resolve())
    return found
