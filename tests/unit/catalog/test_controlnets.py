from pathlib import Path

import pytest

from catalog.controlnets import read_controlnets
from catalog.models import read_models
from core.errors import ConfigurationError

ZOO = Path(__file__).parents[3] / "zoo"


def write(folder, name, text):
    (folder / name).mkdir()
    (folder / name / "atelier.json").write_text(text)


def test_those_of_the_zoo_steer_models_that_are_there():
    found = read_controlnets(ZOO / "adapters" / "controlnets")
    assert found.keys() == {"edges", "depth", "layout"}
    models = read_models(ZOO / "weights")
    assert all(set(each.models) <= models.keys() and each.condition for each in found.values())


def test_a_folder_that_is_not_there_has_none(tmp_path):
    assert read_controlnets(tmp_path / "nothing") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "edges/atelier.json"),
        ('{"name": "edges"}', "models"),
        ('{"name": "lines", "models": []}', "must be named 'lines'"),
    ],
)
def test_a_file_that_cannot_be_is_named(tmp_path, text, reason):
    write(tmp_path, "edges", text)
    with pytest.raises(ConfigurationError, match=reason):
        read_controlnets(tmp_path)
