import os
import time
from pathlib import Path

import pytest

from catalog.adding import (
    ABANDONED_S,
    MADE_FROM,
    add_folder,
    aside,
    place_made,
    plan_folder,
    remove,
)
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
    with aside(models, "mine") as made:
        write_folder(made)
        assert read_models(models) == {}
        place_made(made, models, "mine", tmp_path / "file.safetensors")
    assert list(read_models(models)) == ["mine"]
    assert "file.safetensors" in (models / "mine" / MADE_FROM).read_text()
    remove(models, "mine")
    assert list(models.iterdir()) == []


def test_two_who_make_one_model_write_into_folders_of_their_own(models: Path) -> None:
    with aside(models, "mine") as one, aside(models, "mine") as other:
        assert one != other and one.is_dir() and other.is_dir()
    assert list(models.iterdir()) == []


def aged(folder: Path, seconds: float) -> Path:
    for each in (folder, *folder.rglob("*")):
        os.utime(each, times=2 * (time.time() - seconds,))
    return folder


def test_what_nobody_is_at_any_more_goes_with_the_next_model(models: Path, mine: Path) -> None:
    old = ABANDONED_S + 60
    left = (".mine.17.part", ".mine.0123abcd.part", ".mine.89abcdef.removed")
    for name in left:
        aged(write_folder(models / name), old)
    add_folder(mine, models)
    assert [each.name for each in models.iterdir()] == ["mine"]
    for name in left:
        aged(write_folder(models / name), old)
    with aside(models, "other") as part:
        assert {each.name for each in models.iterdir()} == {"mine", part.name}


def test_what_somebody_writes_to_stays_and_so_does_what_is_not_ours(models: Path) -> None:
    busy = aged(write_folder(models / ".mine.0123abcd.part"), ABANDONED_S + 60)
    (busy / "unet" / "config.json").write_text("{}")
    others = [aged(write_folder(models / name), ABANDONED_S + 60) for name in (".cache", "served")]
    with aside(models, "other"):
        assert all(each.is_dir() for each in (busy, *others))


@pytest.mark.parametrize("name", ["none", "..", "a/b", ".hidden"])
def test_what_is_not_there_cannot_be_removed(models: Path, name: str) -> None:
    with pytest.raises((NotFound, ModelRefused)):
        remove(models, name)
    assert models.is_dir()


def test_a_models_folder_that_cannot_be_written_says_what_helps(tmp_path: Path, mine: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelRefused, match="mounted read-only"):
        add_folder(mine, tmp_path / "file" / "models")
