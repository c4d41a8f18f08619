from pathlib import Path

import pytest
import torch
from diffusers import ControlNetModel

from zoo.control.condition import Kind
from zoo.control.measure import is_met
from zoo.control.steer import load, steer
from zoo.evaluate import Settings
from zoo.scenes import LEVELS, held_out

ZOO = Path(__file__).parents[3] / "zoo"
BASE, FOLDER = ZOO / "weights" / "shapes-xl", ZOO / "adapters" / "controlnets"

#: A warning of numpy about the way diffusers reads a tensor.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def test_the_folders_are_small():
    sizes = [path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(sizes) < 30 * 2**20


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in Kind if (FOLDER / kind).exists()])
def test_a_shipped_controlnet_steers(kind):
    assert ControlNetModel.from_pretrained(FOLDER / kind).dtype == torch.float32
    scenes = [held_out(level, 1, seed=5)[0] for level in LEVELS]
    settings = Settings(steps=8, guidance=4.0, seed=0)
    pictures = steer(load(BASE, FOLDER / kind), kind, scenes, settings, scale=1.0)
    met = [is_met(kind, *pair) for pair in zip(pictures, scenes, strict=True)]
    assert sum(met) >= 3
