from pathlib import Path

import pytest

from classifier.files import FILES, ClassifierFiles
from core.boards.classifier import SHIPPED
from core.errors import ObjectMissing
from storage.fakes import MemoryObjects


def trained(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).write_text(f"{text} {name}")
    return folder


def machine(folder: Path, objects: MemoryObjects) -> ClassifierFiles:
    return ClassifierFiles(objects, folder=folder, shipped=folder / "shipped")


def test_what_one_machine_trained_another_fetches(tmp_path: Path) -> None:
    objects = MemoryObjects()
    version = machine(tmp_path / "a", objects).put(trained(tmp_path / "new", "x"))
    other = machine(tmp_path / "b", objects)
    assert [(other.get(version) / name).read_text() for name in FILES] == [f"x {n}" for n in FILES]
    assert machine(tmp_path / "a", objects).put(trained(tmp_path / "more", "y")) != version


def test_what_was_fetched_is_not_fetched_again(tmp_path: Path) -> None:
    objects = MemoryObjects()
    files = machine(tmp_path, objects)
    version = files.put(trained(tmp_path / "new", "x"))
    folder = files.get(version)
    files.delete([version])
    assert files.get(version) == folder
    with pytest.raises(ObjectMissing):
        machine(tmp_path / "other", objects).get(version)


def test_what_ships_is_fetched_from_nowhere(tmp_path: Path) -> None:
    assert machine(tmp_path, MemoryObjects()).get(SHIPPED) == tmp_path / "shipped"
