import json
from pathlib import Path

import pytest
import torch

from catalog.models import read_models
from tests.cases import rarely, rarely_but
from zoo.checker import Aspect
from zoo.evaluate import Settings, generate, judge, load
from zoo.scenes import LEVELS, held_out, prompts

ZOO = Path(__file__).parents[3] / "zoo"
MODELS = read_models(ZOO / "weights")

#: A warning of numpy about the way diffusers reads a tensor.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module", params=rarely_but(["shapes-turbo"], MODELS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def pipeline(name):
    return load(ZOO / "weights" / name)


def test_the_whole_zoo_is_small():
    folders = [ZOO / name for name in ("weights", "adapters", "scorers")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 120 * 2**20


def test_a_folder_loads_in_one_dtype_and_has_a_card(name, pipeline):
    parts = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    assert {part.dtype for part in parts} == {torch.float32}
    assert name in (ZOO / "weights" / name / "README.md").read_text()


def test_sizes_within_the_stated_limits_run(name, pipeline):
    for width in (MODELS[name].min_size, MODELS[name].max_size):
        image = pipeline("a red circle", width=width, height=64, num_inference_steps=1).images[0]
        assert image.size == (width, 64)


@pytest.mark.parametrize("level", rarely_but([LEVELS[-1]], LEVELS))
def test_every_prompt_of_the_grammar_fits(level):
    tokenizer = load(ZOO / "weights" / "shapes-xl").tokenizer
    ids = tokenizer(prompts(level, 100, seed=11)).input_ids
    assert max(len(each) for each in ids) - 2 <= min(m.max_prompt_tokens for m in MODELS.values())


def test_colours_come_out_right(name, pipeline):
    reports = _reports(name, pipeline)
    parts = [part for report in reports for part in report.parts]
    assert all(part.is_right for part in parts if part.aspect is Aspect.COLOUR)


@pytest.mark.parametrize("name", rarely(["shapes-m", "shapes-xl"]), indirect=True)
def test_single_figures_come_out_right(name, pipeline):
    assert sum(report.is_right for report in _reports(name, pipeline)) >= 7


def _reports(name, pipeline):
    model = MODELS[name]
    is_large = model.default_size > 64
    scenes = held_out(1, 2 if is_large else 8, seed=11)
    steps, guidance = min(8 if is_large else 12, model.default_steps), model.default_guidance
    settings = Settings(steps=steps, guidance=guidance, seed=0)
    return judge(generate(pipeline, [scene.caption for scene in scenes], settings), scenes)


def test_tokenizers_agree(name, pipeline):
    own = json.loads((ZOO / "weights" / name / "tokenizer" / "vocab.json").read_text())
    best = json.loads((ZOO / "weights" / "shapes-xl" / "tokenizer" / "vocab.json").read_text())
    assert own == best
