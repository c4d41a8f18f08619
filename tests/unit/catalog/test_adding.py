from pathlib import Path

import pytest

from catalog.adding import MADE_FROM, add_folder, aside, place_made, plan_folder, remove
from catalog.models import read_models
from core.errors import ModelRefused, NotFound
from tests.unit.catalog.description.stock_folders import write_folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "users" / "mine")


def test_a_folder_is_linked_and_its_files_stay_when_it_is_removed(models: Path, mine: Path) -> None:
    found = add_folder(mine, models)
    assert found.model.name == "mine"
    assert (models / "mine").is_symlink()
    assert list(read_models(models)) == ["mine"]
    remove(models, "mine")
    assert list(read_models(models)) == []
    assert (mine / "unet" / "config.json").is_file()


def test_a_model_may_have_another_name_than_its_folder(models: Path, mine: Path) -> None:
    add_folder(mine, models, "portraits")
    assert read_models(models)["portraits"].name == "portraits"


def test_adding_it_again_changes_nothing(models: Path, mine: Path) -> None:
    add_folder(mine, models)
    assert add_folder(mine, models).model.name == "mine"
    assert add_folder(models / "mine", models).model.name == "mine"


def test_what_is_only_planned_changes_nothing(models: Path, mine: Path) -> None:
    assert plan_folder(mine, models).model.name == "mine"
    assert list(models.iterdir()) == []


def test_a_name_that_is_taken_is_refused(models: Path, mine: Path) -> None:
    write_folder(models / "mine")
    with pytest.raises(ModelRefused, match="--name"):
        add_folder(mine, models)


def test_what_was_put_there_by_hand_is_not_deleted(models: Path) -> None:
    write_folder(models / "mine")
    with pytest.raises(ModelRefused, match="move the folder"):
        remove(models, "mine")
    assert (models / "mine" / "unet").is_dir()


def test_what_was_made_here_is_deleted(models: Path, tmp_path: Path) -> None:
    made = write_folder(aside(models, "mine"))
    assert read_models(models) == {}
    place_made(made, models, "mine", tmp_path / "file.safetensors")
    assert list(read_models(models)) == ["mine"]
    assert "file.safetensors" in (models / "mine" / MADE_FROM).read_text()
    remove(models, "mine")
    assert list(models.iterdir()) == []


@pytest.mark.parametrize("name", ["none", "..", "a/b", ".hidden"])
def test_what_is_not_there_cannot_be_removed(models: Path, name: str) -> None:
    with pytest.raises((NotFound, ModelRefused)):
        remove(models, name)
    assert models.is_dir()


def test_a_models_folder_that_cannot_be_written_says_what_helps(tmp_path: Path, mine: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelRefused, match="mounted read-only"):
        add_folder(mine, tmp_path / "file" / "models")
