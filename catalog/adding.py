"""Add a stock pipeline folder to the models folder, and remove models from it.

A folder is linked, so that nothing is copied and nothing of a user's is ever deleted; what was made
here, from a single file, says so in a hidden file and is deleted with its model. The processes of a
running service follow the models folder (`catalogue`).
"""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from catalog.description.folder import check_name
from catalog.models import ReadModel, read_whatever
from core.errors import ModelRefused, NotFound

#: In folders that were made here: what they were made from.
MADE_FROM = ".made-from"
#: Names of folders that are being made, or deleted.
_ASIDE = re.compile(r"\..+\.[0-9a-f]+\.(part|removed)")
#: Seconds without a write after which nobody is at it any more.
ABANDONED_S = 86_400.0


def plan_folder(source: Path, models: Path, name: str | None = None) -> ReadModel:
    """Say what a folder would be served as, and change nothing.

    Raises:
        ModelRefused: it cannot be, or its name is taken; says why, and what would help.
    """
    found = read_whatever(source, name or source.name)
    check_free(models / found.model.name, source)
    return found


def add_folder(source: Path, models: Path, name: str | None = None) -> ReadModel:
    """Have a stock folder served: link to it from the models folder. Twice is as once.

    Raises:
        ModelRefused: it cannot be, its name is taken, or the models folder cannot be written.
    """
    source = source.resolve()
    if source.parent == models.resolve() and name in (None, source.name):
        return read_whatever(source)  # it is there
    found = plan_folder(source, models, name)
    target = models / found.model.name
    if not target.is_symlink():
        with writing(models):
            models.mkdir(parents=True, exist_ok=True)
            _sweep(models)
            target.symlink_to(source)
    return found


def place_made(made: Path, models: Path, name: str, source: Path) -> None:
    """Put a folder that was made from a file where models are, whole or not at all.

    Raises:
        ModelRefused: its name is taken, or the models folder cannot be written.
    """
    target = models / name
    check_free(target, made)
    with writing(models):
        (made / MADE_FROM).write_text(f"{source}\n")
        made.rename(target)


def remove(models: Path, name: str) -> None:
    """Serve a model no more: a link is unlinked, what was made here deleted.

    Raises:
        NotFound: there is none of this name.
        ModelRefused: it was put there by hand, or the models folder cannot be written.
    """
    check_name(name)
    path = models / name
    if not path.is_symlink() and not path.is_dir():
        raise NotFound(f"there is no model {name}")
    with writing(models):
        if path.is_symlink():
            path.unlink()
            return
        if not (path / MADE_FROM).is_file():
            raise ModelRefused(
                f"{path} was put there by hand, and its files are not ours to delete: move the "
                "folder out of the models folder, and it is served no more"
            )
        gone = models / f".{name}.{uuid4().hex[:8]}.removed"
        os.utime(path)  # so that no sweep takes it for abandoned
        path.rename(gone)  # at once for all who look
        shutil.rmtree(gone)


@contextmanager
def aside(models: Path, name: str) -> Iterator[Path]:
    """Make a folder beside the models where one is made; it goes unless it is placed.

    Nobody serves what begins with a dot. Its name is drawn: a pid is another process's, too, in
    another container.

    Raises:
        ModelRefused: the models folder cannot be written.
    """
    part = models / f".{name}.{uuid4().hex[:8]}.part"
    with writing(models):
        _sweep(models)
        part.mkdir(parents=True)
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def writing(models: Path) -> Iterator[None]:
    """Say what would help where the models folder cannot be written. Raises: ModelRefused."""
    try:
        yield
    except OSError as error:
        raise ModelRefused(
            f"{models} cannot be written ({error.strerror}): where it is mounted read-only, put "
            "the model into the folder that is mounted, on its host (docs/models.md)"
        ) from error


def check_free(target: Path, source: Path) -> None:
    """Refuse a name that another model has. Raises: ModelRefused."""
    if not target.is_symlink() and not target.exists():
        return
    if target.is_symlink() and target.resolve() == source.resolve():
        return
    raise ModelRefused(
        f"a model named {target.name} is there already: give another name by --name, or first "
        f"`atelier models remove {target.name}`"
    )


def _sweep(models: Path) -> None:
    """Delete what was left by whoever was killed while a model was made or removed."""
    for left in models.glob(".*"):
        if _ASIDE.fullmatch(left.name) and _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)


def _is_abandoned(left: Path) -> bool:
    """Tell whether nothing was written in a folder for long; what changes meanwhile is in use."""
    try:
        written_at = max(each.lstat().st_mtime for each in (left, *left.rglob("*")))
    except OSError:
        return False
    return time.time() - written_at > ABANDONED_S
