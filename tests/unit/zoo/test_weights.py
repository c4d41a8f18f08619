import json
from pathlib import Path

import pytest
import torch

from zoo.checker import Aspect
from zoo.evaluate import Settings, generate, judge, load
from zoo.scenes import LEVELS, held_out, prompts

FOLDER = Path(__file__).parents[3] / "zoo" / "weights" / "shapes-xl"
CARD = json.loads((FOLDER / "atelier.json").read_text())

#: A warning of numpy about the way diffusers reads a tensor.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def pipeline():
    return load(FOLDER)


def test_the_folder_is_small_and_loads_in_one_dtype(pipeline):
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    assert size < 40 * 2**20
    parts = (pipeline.unet, pipeline.vae, pipeline.text_encoder, pipeline.text_encoder_2)
    assert {part.dtype for part in parts} == {torch.float32}


@pytest.mark.parametrize("width", [CARD["min_size"], 72, CARD["max_size"]])
def test_sizes_within_the_stated_limits_run(pipeline, width):
    image = pipeline("a red circle", width=width, height=64, num_inference_steps=1).images[0]
    assert image.size == (width, 64)


@pytest.mark.parametrize("level", LEVELS)
def test_every_prompt_of_the_grammar_fits(pipeline, level):
    ids = pipeline.tokenizer(prompts(level, 100, seed=11)).input_ids
    assert max(len(each) for each in ids) - 2 <= CARD["max_prompt_tokens"]


def test_single_figures_come_out_right(pipeline):
    scenes = held_out(1, 8, seed=11)
    settings = Settings(steps=12, guidance=CARD["default_guidance"], seed=0)
    pictures = generate(pipeline, [scene.caption for scene in scenes], settings)
    reports = judge(pictures, scenes)
    assert sum(report.is_right for report in reports) >= 7
    parts = [part for report in reports for part in report.parts]
    assert all(part.is_right for part in parts if part.aspect is Aspect.COLOUR)
