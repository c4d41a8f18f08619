"""Upscalers are recognised by their tensors, and added from one file."""

import json

import pytest
import torch
from safetensors.torch import save_file

from catalog.adding import remove
from catalog.catalogue import Catalogue
from catalog.converting import ways_to_add
from catalog.models import read_found, survey
from core.errors import ModelRefused
from tests.upscalers import NAMINGS, weights, write_upscaler


def a_file(folder, tensors, name="anime-x4"):
    path = folder / f"{name}.safetensors"
    save_file(tensors, path)
    return path


def test_a_file_is_added_served_and_removed(tmp_path):
    file, models = a_file(tmp_path, weights(blocks=2)), tmp_path / "models"
    models.mkdir()
    plan, add = ways_to_add(file, None)
    planned = plan(file, models)
    assert list(models.iterdir()) == []
    added = add(file, models)
    assert added.model == planned.model
    assert list(Catalogue(models)) == ["anime-x4"]
    model = survey(models).models["anime-x4"]
    assert (model.family, model.scale, model.max_size, model.default_steps) == (
        "esrgan",
        4,
        1024,
        1,
    )
    assert model.is_upscaler and not model.can_edit and not model.is_known
    assert survey(models).descriptions["anime-x4"].pipeline == "RRDBNet"
    remove(models, "anime-x4")
    assert list(models.iterdir()) == [] and file.is_file()


@pytest.mark.parametrize("naming", NAMINGS)
def test_older_names_are_recognised(tmp_path, naming):
    file = a_file(tmp_path, NAMINGS[naming](weights(ups=1)))
    plan, _ = ways_to_add(file, None)
    assert plan(file, tmp_path / "models", "mine").model.scale == 2


def test_a_folder_by_hand_may_set_other_limits_but_no_other_scale(tmp_path):
    folder = write_upscaler(tmp_path / "up", weights(unshuffle=2))
    said = {"name": "up", "family": "esrgan", "max_size": 300, "scale": 9}
    (folder / "atelier.json").write_text(json.dumps(said))
    model = read_found(folder).model
    assert (model.max_size, model.scale, model.default_size) == (300, 2, 256)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"conv_up2.weight": None}, "conv_up2.bias"),
        ({"conv_hr.bias": None}, "not complete"),
        ({"body.0.rdb1.conv1x1.weight": torch.zeros(4, 8, 1, 1)}, "conv1x1"),
        ({"conv_first.weight": torch.zeros(8, 4, 3, 3)}, "4 channels"),
        ({"conv_hr.weight": torch.zeros(8, 8, 1, 1)}, "8 x 8 x 1 x 1"),
    ],
)
def test_another_network_says_why_not(tmp_path, change, reason):
    tensors = {name: x for name, x in (weights() | change).items() if x is not None}
    file = a_file(tmp_path, tensors)
    plan, _ = ways_to_add(file, None)
    with pytest.raises(ModelRefused, match=reason):
        plan(file, tmp_path / "models")


def test_networks_of_other_kinds_say_what_is_served(tmp_path):
    swin = {"layers.0.residual_group.blocks.0.attn.qkv.weight": torch.zeros(6, 2)}
    plan, _ = ways_to_add(a_file(tmp_path, swin), None)
    with pytest.raises(ModelRefused, match="RRDBNet"):
        plan(tmp_path / "anime-x4.safetensors", tmp_path / "models")


def test_a_name_that_is_taken_is_refused(tmp_path):
    write_upscaler(tmp_path / "models" / "anime-x4", weights())
    file = a_file(tmp_path, weights())
    _, add = ways_to_add(file, None)
    with pytest.raises(ModelRefused, match="--name"):
        add(file, tmp_path / "models")
