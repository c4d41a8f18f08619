import json
from pathlib import Path

import pytest
import torch
from diffusers import ControlNetModel
from typer.testing import CliRunner

from zoo import evaluate
from zoo.card import write_figures
from zoo.control import network, report, train
from zoo.control.condition import Kind, view
from zoo.control.steer import load, steer
from zoo.control.train import Plan, recipe_of, shortened, smoke, train_all
from zoo.control.training import ControlTraining, conditions
from zoo.evaluate import Settings
from zoo.latents import read_pools
from zoo.scenes import LEVELS, held_out
from zoo.text import time_ids

BASE = Path(__file__).parents[3] / "zoo" / "weights" / "shapes-xl"

#: A warning of numpy about the way diffusers reads a tensor.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("control")
    plan = smoke(
        Plan(
            base=BASE,
            init=None,
            workspace=folder / "work",
            pool=folder / "pool",
            output=folder / "controlnets",
        )
    )
    assert train_all(plan, [shortened(recipe_of(kind, seed=0)) for kind in Kind])
    return plan


@pytest.fixture(scope="module")
def base():
    return evaluate.load(BASE)


@pytest.mark.long
def test_all_are_stock_folders_with_cards(plan):
    for kind in Kind:
        controlnet = ControlNetModel.from_pretrained(plan.output / kind)
        assert controlnet.dtype == torch.float32
        assert controlnet.config.conditioning_embedding_out_channels == [16, 32, 64]
        card = (plan.output / kind / "README.md").read_text()
        assert f"# {kind}:" in card
        assert "| seed | 0 |" in card
    assert not any(plan.workspace.iterdir())


def test_a_new_one_lets_the_condition_in_but_nothing_out(base):
    controlnet = network.from_unet(base.unet)
    views = conditions([view(Kind.EDGES, scene) for scene in held_out(3, 2, seed=0)])
    embedded = controlnet.controlnet_cond_embedding(views)
    assert embedded.shape[2:] == (16, 16)
    assert embedded.std() > 0.05
    context = torch.zeros(2, 48, base.unet.config.cross_attention_dim)
    added = {"text_embeds": torch.zeros(2, 128), "time_ids": time_ids(2)}
    down, middle = controlnet(
        torch.zeros(2, 4, 16, 16), 500, context, views, added_cond_kwargs=added, return_dict=False
    )
    assert not any(each.any() for each in (*down, middle))


@pytest.mark.long
def test_the_base_stays_and_a_resumed_run_equals_an_uninterrupted_one(plan, base, tmp_path):
    pools = read_pools(plan.pool, dict.fromkeys(LEVELS, plan.pool_size))

    def fresh():
        torch.manual_seed(0)
        recipe = shortened(recipe_of(Kind.DEPTH, seed=0))
        return ControlTraining(network.from_unet(base.unet), base, pools, recipe)

    before = {name: weight.clone() for name, weight in base.unet.state_dict().items()}
    whole = fresh()
    losses = [whole.advance() for _ in range(2)]
    first, second = fresh(), fresh()
    head = first.advance()
    first.save(tmp_path / "half.pt")
    second.load(tmp_path / "half.pt")
    assert [head, second.advance()] == losses
    assert all(torch.equal(before[name], now) for name, now in base.unet.state_dict().items())


@pytest.mark.long
def test_at_scale_zero_a_controlnet_is_silent(plan):
    pipeline = load(BASE, plan.output / Kind.EDGES)
    scenes, settings = held_out(1, 2, seed=0), Settings(steps=2, guidance=4.0, seed=0)
    silent = steer(pipeline, Kind.EDGES, scenes, settings, scale=0.0)
    other = steer(pipeline, Kind.LAYOUT, scenes, settings, scale=0.0)
    assert all((one == two).all() for one, two in zip(silent, other, strict=True))


@pytest.mark.long
def test_the_report_measures_draws_and_fills_the_cards(plan, tmp_path):
    grid = tmp_path / "grid.png"
    command = (
        f"--base {BASE} --controlnets {plan.output} --n 1 --steps 1 --cards --json --grid {grid}"
    )
    result = CliRunner().invoke(report.app, command.split())
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["kind"] for row in rows] == list(Kind)
    assert all(row["autoencoded"] == 1.0 and row["others"] == 0.0 for row in rows)
    assert grid.exists()
    assert "## Figures" in (plan.output / Kind.EDGES / "README.md").read_text()


def test_new_figures_replace_old_ones(tmp_path):
    card = tmp_path / "README.md"
    card.write_text("# edges\n")
    for figures in ("old\n", "new\n"):
        write_figures(tmp_path, figures)
    assert card.read_text() == "# edges\n\n## Figures\nnew\n"


def test_one_kind_or_all_must_be_named():
    result = CliRunner().invoke(train.app, ["--base", str(BASE)])
    assert result.exit_code == 2
