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


def test_what_a_union_tells_apart_is_counted_from_its_config(tmp_path):
    for name, config in {
        "union": '{"_class_name": "ControlNetUnionModel", "num_control_type": 6}',
        "edges": '{"_class_name": "ControlNetModel"}',
        "odd": "[",
    }.items():
        write(tmp_path, name, f'{{"name": "{name}", "models": ["small"]}}')
        (tmp_path / name / "config.json").write_text(config)
    found = read_controlnets(tmp_path)
    assert {name: each.modes for name, each in found.items()} == {"union": 6, "edges": 0, "odd": 0}


def test_a_t2i_adapter_is_told_by_its_config(tmp_path):
    for name, kind in {"sketch": "T2IAdapter", "edges": "ControlNetModel"}.items():
        write(tmp_path, name, f'{{"name": "{name}", "models": ["small"]}}')
        (tmp_path / name / "config.json").write_text(f'{{"_class_name": "{kind}"}}')
    found = read_controlnets(tmp_path)
    assert found["sketch"].is_adapter and not found["edges"].is_adapter


@pytest.mark.parametrize(
    ("config", "cure"),
    [
        ('{"_class_name": "ControlNetXSAdapter"}', "use a ControlNetModel or "),
        ('{"_class_name": "ControlNetModel", "global_pool_conditions": true}', "does not"),
        (
            '{"_class_name": "SD3ControlNetModel", "extra_conditioning_channels": 1}',
            "with task 'edit'",
        ),
        ('{"_class_name": "SD3ControlNetModel", "joint_attention_dim": null}', "all its parts"),
        (
            '{"_class_name": "FluxControlNetModel", "conditioning_embedding_channels": 16}',
            "reads latents",
        ),
    ],
)
def test_a_kind_that_is_not_served_is_refused_at_startup_with_a_cure(tmp_path, config, cure):
    write(tmp_path, "edges", '{"name": "edges", "models": ["small"]}')
    (tmp_path / "edges/config.json").write_text(config)
    with pytest.raises(ConfigurationError, match=f"edges/config.json.*{cure}"):
        read_controlnets(tmp_path)
