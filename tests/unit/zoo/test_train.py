import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from diffusers import DiffusionPipeline, StableDiffusionXLPipeline
from transformers import CLIPTextConfig
from typer.testing import CliRunner

from zoo.assemble import ServiceCard
from zoo.couples import Coupling
from zoo.evaluate import Settings, evaluate
from zoo.family import FAMILY, Layout
from zoo.reading import ReadingRecipe
from zoo.recipe import DenoiserRecipe
from zoo.stages import COUPLE_SIZES, POOL_SIZES, Plan
from zoo.train import DEFAULT_STAGES, Stage, app, smoke, train
from zoo.vae import VaeRecipe


def _plan(folder, name="shapes-m"):
    member = FAMILY[name]
    return smoke(
        Plan(
            member=member,
            workspace=folder / name,
            output=folder / f"{name}-model",
            init=None,
            teacher=None,
            reading_recipe=ReadingRecipe(),
            recipe=DenoiserRecipe(),
            vae_recipe=VaeRecipe(),
            pool_sizes=POOL_SIZES,
            couple_sizes=COUPLE_SIZES,
            coupling=Coupling(),
            save_every=1,
            card=ServiceCard(name="smoke", family=member.layout),
        )
    )


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    plan = _plan(tmp_path_factory.mktemp("zoo"))
    assert train(plan, DEFAULT_STAGES)
    return plan


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of diffusers
def test_every_stage_runs_and_stock_diffusers_loads_the_result(plan):
    pipeline = StableDiffusionXLPipeline.from_pretrained(plan.output)
    pipeline.set_progress_bar_config(disable=True)
    parts = (pipeline.unet, pipeline.vae, pipeline.text_encoder, pipeline.text_encoder_2)
    assert {part.dtype for part in parts} == {torch.float32}
    rows, examples = evaluate(pipeline, 1, Settings(steps=1, guidance=3.0, seed=0))
    assert [tally.level for tally in rows["generated"]] == list(examples)
    assert all(tally.strict == 1.0 for tally in rows["true"])


@pytest.mark.long
@pytest.mark.slow
def test_a_model_can_be_trained_on_and_keeps_its_readme(plan, tmp_path):
    (plan.output / "README.md").write_text("kept\n")
    onward = replace(plan, init=plan.output, workspace=tmp_path / "onward")
    assert train(onward, [*DEFAULT_STAGES, Stage.DECODER])
    assert (plan.output / "README.md").read_text() == "kept\n"
    card = json.loads((plan.output / "atelier.json").read_text())
    assert card["name"] == "smoke"
    assert card["size_multiple"] == 8


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["shapes-xl", "shapes-tiny", "shapes-turbo"])
def test_the_family_grows_from_one_model(plan, name, tmp_path):
    start = _plan(tmp_path, name)
    grown = replace(start, init=plan.output, workspace=plan.workspace.with_name(name))
    is_pupil = grown.member.layout is Layout.SD
    assert train(replace(grown, teacher=plan.output if is_pupil else None), DEFAULT_STAGES)
    pipeline = DiffusionPipeline.from_pretrained(grown.output)
    assert type(pipeline).__name__ == (
        "StableDiffusionPipeline" if is_pupil else "StableDiffusionXLPipeline"
    )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["shapes-m", "shapes-xl"])
def test_a_training_starts_where_its_model_stands(plan, name, tmp_path):
    start = _plan(tmp_path, name)
    onward = replace(start, init=plan.output, recipe=replace(start.recipe, rate=0.0))
    assert train(onward, DEFAULT_STAGES)
    before = DiffusionPipeline.from_pretrained(plan.output).unet.state_dict()
    after = DiffusionPipeline.from_pretrained(onward.output).unet.state_dict()
    for moved in ("conv_in.weight", "mid_block.attentions.0.proj_in.weight", "conv_out.bias"):
        assert torch.equal(after[moved], before[moved])


@pytest.mark.long
@pytest.mark.slow
def test_the_shipped_model_grows_whatever_its_text_encoders(tmp_path):
    shipped = Path(__file__).parents[3] / "zoo" / "weights" / "shapes-m"
    grown = replace(_plan(tmp_path, "shapes-xl"), init=shipped)
    assert train(grown, DEFAULT_STAGES)
    layers = DiffusionPipeline.from_pretrained(grown.output).text_encoder.config.num_hidden_layers
    assert layers == CLIPTextConfig.from_pretrained(shipped / "text_encoder").num_hidden_layers


@pytest.mark.long
@pytest.mark.slow
def test_a_finished_training_takes_no_further_step(plan):
    checkpoint = plan.workspace / "denoiser.pt"
    before = torch.load(checkpoint, weights_only=True)["model"]
    assert train(plan, [Stage.DENOISER])
    after = torch.load(checkpoint, weights_only=True)["model"]
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_help_shows_an_example():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
