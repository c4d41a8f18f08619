from pathlib import Path

import pytest

from tests.cases import rarely_but
from zoo.lora.card import Card, model_digest
from zoo.lora.stock import load_checked, open_base
from zoo.lora.styles import STYLES

ZOO = Path(__file__).parents[3] / "zoo"
BASE = ZOO / "weights" / "shapes-xl"
FILES = sorted((ZOO / "adapters" / "loras").glob("*.safetensors"))
files = pytest.mark.parametrize("path", rarely_but(FILES[:2], FILES), ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def pipeline():
    return open_base(BASE)


@files
def test_stock_diffusers_takes_the_whole_file(pipeline, path):
    layers = load_checked(pipeline, path, STYLES[path.stem])
    pipeline.unload_lora_weights()
    assert layers == Card.read(path.with_suffix(".json")).figures.layers
    assert path.stat().st_size < 2**20


@files
def test_the_card_is_of_the_shipped_model_and_its_figures_pass(path):
    card = Card.read(path.with_suffix(".json"))
    assert card.base_digest == model_digest(BASE)
    assert card.figures.shift >= 3
    assert card.figures.is_neutral_at_zero
