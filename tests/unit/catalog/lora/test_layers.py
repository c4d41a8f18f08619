"""Do the LoRAs of the zoo fit the model they were trained for, by what its folder says?"""

from pathlib import Path

import pytest

from catalog.lora.layers import read_shapes
from catalog.lora.parse import parse
from core.errors import BadWeights, WeightsRefused

ZOO = Path(__file__).parents[4] / "zoo"
FILES = sorted((ZOO / "adapters" / "loras").glob("*.safetensors"))


@pytest.fixture(scope="module")
def shapes():
    return {name: read_shapes(ZOO / "weights" / name) for name in ("shapes-xl", "shapes-s")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_lora_of_the_zoo_fits_its_model_and_no_other(file, shapes):
    pairs = parse(file.read_bytes(), shapes["shapes-xl"])
    assert 164 <= len(pairs) <= 206
    assert {pair.scale for pair in pairs} == {0.5 if file.stem in ("outline", "sepia") else 1.0}
    with pytest.raises(WeightsRefused):
        parse(file.read_bytes(), shapes["shapes-s"])


def test_a_folder_without_such_parts_has_no_layers_and_a_broken_one_says_so(tmp_path):
    assert read_shapes(tmp_path) == {}
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "model.safetensors").write_bytes(b"no")
    with pytest.raises(BadWeights, match=r"unet/model\.safetensors: not a safetensors file"):
        read_shapes(tmp_path)
