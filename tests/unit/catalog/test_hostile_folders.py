"""Folders of strangers are served or refused with a reason: nothing else becomes of them."""

import os
from pathlib import Path

import pytest

from bench.parts.hostile_models import FILES, FOLDERS
from catalog.adding import plan_folder
from catalog.converting import ways_to_add
from catalog.models import survey
from core.errors import ConfigurationError, ModelRefused
from tests.unit.catalog.description.stock_folders import write_folder

#: Odd, and served all the same: what is odd in them is not read, or has a usual value.
SERVED = {
    "endless-tokenizer",
    "looped",
    "piped-atelier",
    "config-of-infinities",
    "sizes-of-texts",
    "sizes-below-zero",
    "vae-of-texts",
    "schedule-of-texts",
    "tokenizer-of-nothing",
    # api/intake/tokenizers refuses them
    *("hollow-tokenizer-tokenizer.json", "hollow-tokenizer-vocab.json"),
    *("hollow-tokenizer-merges.txt", "hollow-tokenizer-special_tokens_map.json"),
}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_served_or_refused(tmp_path: Path, models: Path, name: str) -> None:
    folder = write_folder(tmp_path / "strange")
    FOLDERS[name](folder)
    if name in SERVED:
        assert plan_folder(folder, models).model.max_size <= 2**15
        return
    with pytest.raises((ModelRefused, ConfigurationError)):
        plan_folder(folder, models)


@pytest.mark.parametrize("name", FOLDERS)
def test_one_among_those_served_ends_nothing(tmp_path: Path, models: Path, name: str) -> None:
    FOLDERS[name](write_folder(models / "strange"))
    assert survey(models).refused.keys() | survey(models).models.keys() == {"strange"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused(tmp_path: Path, models: Path, name: str) -> None:
    FILES[name](tmp_path / name)
    with pytest.raises(ModelRefused):
        ways_to_add(tmp_path / name, None)[0](tmp_path / name, models, None)


def test_a_base_that_nobody_can_read_is_refused(tmp_path: Path, models: Path) -> None:
    base = write_folder(tmp_path / "base")
    os.remove(base / "unet" / "config.json")
    os.mkfifo(base / "unet" / "config.json")
    with pytest.raises(ModelRefused):
        ways_to_add(base, None)[0](base, models, None)
