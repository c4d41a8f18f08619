import json
from dataclasses import replace

import pytest
import torch
from diffusers import StableDiffusionXLPipeline
from typer.testing import CliRunner

from zoo.assemble import ServiceCard
from zoo.evaluate import Settings, evaluate
from zoo.recipe import Recipe
from zoo.stages import POOL_SIZES, Plan
from zoo.train import DEFAULT_STAGES, Stage, app, smoke, train
from zoo.vae import VaeRecipe


def _plan(folder):
    return smoke(
        Plan(
            workspace=folder / "work",
            output=folder / "model",
            init=None,
            recipe=Recipe(),
            vae_recipe=VaeRecipe(),
            pool_sizes=POOL_SIZES,
            save_every=1,
            card=ServiceCard(name="smoke"),
        )
    )


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    plan = _plan(tmp_path_factory.mktemp("zoo"))
    assert train(plan, DEFAULT_STAGES)
    return plan


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of diffusers
def test_every_stage_runs_and_stock_diffusers_loads_the_result(plan):
    pipeline = StableDiffusionXLPipeline.from_pretrained(plan.output)
    pipeline.set_progress_bar_config(disable=True)
    parts = (pipeline.unet, pipeline.vae, pipeline.text_encoder, pipeline.text_encoder_2)
    assert {part.dtype for part in parts} == {torch.float32}
    rows, examples = evaluate(pipeline, 1, Settings(steps=1, guidance=3.0, seed=0))
    assert [tally.level for tally in rows["generated"]] == list(examples)
    assert all(tally.strict == 1.0 for tally in rows["true"])


@pytest.mark.slow
def test_a_model_can_be_trained_on_and_keeps_its_readme(plan, tmp_path):
    (plan.output / "README.md").write_text("kept\n")
    onward = replace(plan, init=plan.output, workspace=tmp_path / "onward")
    assert train(onward, [*DEFAULT_STAGES, Stage.DECODER])
    assert (plan.output / "README.md").read_text() == "kept\n"
    card = json.loads((plan.output / "atelier.json").read_text())
    assert card["name"] == "smoke"
    assert card["size_multiple"] == 8


@pytest.mark.slow
def test_a_finished_training_takes_no_further_step(plan):
    checkpoint = plan.workspace / "denoiser.pt"
    before = torch.load(checkpoint, weights_only=True)["networks"]
    assert train(plan, [Stage.DENOISER])
    after = torch.load(checkpoint, weights_only=True)["networks"]
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_help_shows_an_example():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
