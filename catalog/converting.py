"""Have a single-file checkpoint converted and served: in a process of its own, or not at all."""

import importlib.util
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Protocol

from catalog.adding import add_folder, aside, check_free, place_made, plan_folder
from catalog.adding_upscalers import add_upscaler, planned_upscaler
from catalog.description.distilled import habit_of
from catalog.description.folder import GIB, Description, check_name, written_at
from catalog.description.pipelines import FAMILY_OF
from catalog.description.single_file import Checkpoint, recognise
from catalog.description.upscaler_folder import holds_upscaler
from catalog.models import ReadModel, read_found, read_whatever
from core.errors import ModelRefused
from core.model import Model

#: What converts; it needs the packages of workers.
CONVERTER = "worker.checkpoints.convert"
ROOT = Path(__file__).parents[1]
PIPELINE_OF = {family: pipeline for pipeline, family in FAMILY_OF.items()}
#: Pixels that each kind of checkpoint was trained on, and SD 2 if it predicts velocity.
_SIDES = {"sd15": 512, "sd2": 512, "sdxl": 1024, "sd3": 1024, "flux": 1024}
_VELOCITY_SIDE = 768
#: Characters of what a converter that failed says last.
_LAST_CHARS = 400


class Add(Protocol):
    """Adds a path to a models folder, or says what it would be."""

    def __call__(self, path: Path, models: Path, name: str | None = None, /) -> ReadModel:
        """Raises: ModelRefused saying why, and what would help."""
        ...


def ways_to_add(path: Path, base: Path | None) -> tuple[Add, Add]:
    """Choose how a folder or a file would be added, and how it is."""
    if path.is_dir() or (not path.suffix and not path.is_file()):
        return plan_folder, add_folder
    if holds_upscaler(path):
        return planned_upscaler, add_upscaler
    return partial(planned_file, base=base), partial(add_file, base=base)


def planned_file(
    file: Path, models: Path, name: str | None = None, base: Path | None = None
) -> ReadModel:
    """Say what a file would be served as, as far as its header tells; change nothing.

    Raises:
        ModelRefused: as `plan_file`.
    """
    found = plan_file(file, models, name, base)
    habit = habit_of(found.family, found.distilled, names=(file.stem,), denoiser={})
    side = _side(found)
    model = Model(
        name=name or file.stem,
        family=found.family,
        default_steps=habit.steps,
        max_steps=habit.max_steps,
        default_guidance=habit.guidance,
        default_size=side,
        min_size=side // 2,
        max_size=2 * side,
        size_gib=round(found.tensors.resident_bytes / GIB, 4),
    )
    described = Description(
        model=model,
        pipeline=PIPELINE_OF[found.family],
        parameters=found.tensors.parameters,
        dtypes=found.tensors.dtypes,
        files=1,
        variant=None,
        distilled=found.distilled,
        scheduler="as its kind of model has",
        written_at=written_at(file),
    )
    return ReadModel(model=model, description=described)


def plan_file(
    file: Path, models: Path, name: str | None = None, base: Path | None = None
) -> Checkpoint:
    """Say what a file is, and change nothing.

    Raises:
        ModelRefused: it cannot be served, or its name is taken; says why, and what would help.
    """
    if not file.is_file():
        raise ModelRefused(f"{file}: there is no such file")
    name = name or file.stem
    check_name(name)
    check_free(models / name, file)
    found = recognise(file)
    if base is not None:
        _check_base(found, base)
    elif found.needs_base:
        lacking = ", ".join(found.lacks) or "the configuration of its text encoders"
        raise ModelRefused(
            f"{file.name} is a {found.family} checkpoint without {lacking}: name a stock folder of "
            f"its family by --base, from which that is taken"
        )
    return found


def add_file(
    file: Path, models: Path, name: str | None = None, base: Path | None = None
) -> ReadModel:
    """Convert a file into a stock folder among the models. Takes minutes for one of real size.

    Raises:
        ModelRefused: it cannot be converted; says why, and what would help.
    """
    name = name or file.stem
    plan_file(file, models, name, base)
    if importlib.util.find_spec("diffusers") is None:
        raise ModelRefused(
            "converting a single file needs the packages of a worker (torch, diffusers), which "
            "this process does not have: run `atelier models add` where they are, with "
            "ATELIER_MODELS_DIR naming the service's models folder"
        )
    with aside(models, name) as part:
        _convert(file, part, base)
        found = read_found(part, name)
        place_made(part, models, name, file.resolve())
    return found


def _convert(file: Path, folder: Path, base: Path | None) -> None:
    options = ["--base", str(base)] if base is not None else []
    command = [sys.executable, "-m", CONVERTER, str(file), str(folder), *options]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise ModelRefused(f"{file.name} cannot be converted: {said[-1][-_LAST_CHARS:]}")


def _side(found: Checkpoint) -> int:
    is_large = found.kind == "sd2" and found.predicts_velocity
    return _VELOCITY_SIDE if is_large else _SIDES[found.kind]


def _check_base(found: Checkpoint, base: Path) -> None:
    family = read_whatever(base, "base").model.family
    if family != found.family:
        raise ModelRefused(
            f"{base} is of {family}, and the file of {found.family}: name a base of its family"
        )
