import json
from pathlib import Path

import pytest

from catalog.models import read_models
from core.errors import ConfigurationError
from core.model import Model


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "atelier.json").write_text(text)


def test_models_are_read_by_name_with_defaults(tmp_path: Path) -> None:
    write(tmp_path, "b", json.dumps({"name": "shapes-xl", "family": "sdxl", "max_size": 256}))
    write(tmp_path, "a", json.dumps({"name": "tiny", "family": "sd"}))
    (tmp_path / "no-model").mkdir()
    models = read_models(tmp_path)
    assert models["shapes-xl"] == Model(name="shapes-xl", family="sdxl", max_size=256)
    assert list(models) == ["tiny", "shapes-xl"]


def test_no_folder_holds_no_models(tmp_path: Path) -> None:
    assert read_models(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "truncated"),
        ("[]", "object"),
        ('{"name": "x"}', "family"),
        ('{"name": "x", "family": "sd", "max_size": "big"}', "max_size"),
        ('{"name": "x", "family": "sd", "max_sise": 64}', "max_sise"),
        ('{"name": "\xff', "UTF-8|truncated"),
    ],
)
def test_a_bad_file_is_named_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    write(tmp_path, "bad", text)
    with pytest.raises(ConfigurationError, match=rf"bad/atelier\.json.*({reason})"):
        read_models(tmp_path)


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(tmp_path, folder, '{"name": "x", "family": "sd"}')
    with pytest.raises(ConfigurationError, match="second model"):
        read_models(tmp_path)
