import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from diffusers import DiffusionPipeline
from hypothesis import given
from hypothesis import strategies as st
from transformers import CLIPTokenizer
from typer.testing import CliRunner

from zoo.assemble import ServiceCard
from zoo.dit.architecture import SHIFT, STEPS, transformer
from zoo.dit.flow import FlowRecipe, FlowTraining, draw_times
from zoo.dit.positions import TOKENS, positions
from zoo.dit.silent import silent_t5, silent_tokenizer
from zoo.dit.text import read_captions
from zoo.dit.train import DitPlan, app, export_model, make_pools, smoke, train
from zoo.evaluate import Settings, evaluate, load
from zoo.latents import read_pools
from zoo.scenes import LEVELS
from zoo.training import averaged

BASE = Path("zoo/weights/shapes-xl")
CAPTION = "a small green circle on the right on a purple background"

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dit")
    plan = smoke(
        DitPlan(
            workspace=folder / "work",
            output=folder / "model",
            base=BASE,
            text=BASE,
            init=None,
            pools={1: folder / "pool"},
            pool_sizes={1: dict.fromkeys(LEVELS, 8)},
            recipe=FlowRecipe(),
            save_every=2,
            card=ServiceCard(name="smoke", family="sd3"),
        )
    )
    assert train(plan)
    return plan


def a_training(plan):
    captions = read_captions(plan.text)
    torch.manual_seed(0)
    model = transformer(captions.context, captions.pooled)
    pools = read_pools(plan.pools[1], plan.pool_sizes[1])
    return FlowTraining(model, captions, {1: pools}, plan.recipe)


@pytest.mark.long
def test_stock_diffusers_loads_the_result_without_being_told_anything(plan):
    pipeline = load(plan.output)
    parts = (pipeline.transformer, pipeline.vae, pipeline.text_encoder, pipeline.text_encoder_2)
    assert {part.dtype for part in parts} == {torch.float32}
    rows, _ = evaluate(pipeline, 1, Settings(steps=1, guidance=3.0, seed=0))
    assert all(tally.strict == 1.0 for tally in rows["true"])
    assert json.loads((plan.output / "atelier.json").read_text())["family"] == "sd3"


@pytest.mark.long
def test_training_reads_captions_as_the_stock_pipeline_does(plan):
    pipeline = DiffusionPipeline.from_pretrained(plan.output)
    expected, empty, pooled, _ = pipeline.encode_prompt(CAPTION, None, None)
    captions = read_captions(plan.output)
    tokenizer = CLIPTokenizer.from_pretrained(BASE / "tokenizer")
    ids = tokenizer([CAPTION], padding="max_length", max_length=48, return_tensors="pt").input_ids
    context, read_pooled = captions(ids)
    torch.testing.assert_close(context, expected[:, :49], atol=1e-5, rtol=0)
    torch.testing.assert_close(read_pooled, pooled, atol=1e-5, rtol=0)
    torch.testing.assert_close(captions(captions.nothing()[None])[0], empty[:, :49])
    assert not expected[:, 48:].any()


@pytest.mark.long
def test_training_predicts_what_the_stock_transformer_predicts(plan):
    pipeline = DiffusionPipeline.from_pretrained(plan.output)
    training = a_training(plan)
    training.model.load_state_dict(pipeline.transformer.state_dict())
    for weight in (*training.model.parameters(), *pipeline.transformer.parameters()):
        weight.data += 0.05  # so that nothing is multiplied by the zeros it starts with
    text, _, pooled, _ = pipeline.encode_prompt(CAPTION, None, None)
    noisy, times = torch.randn(1, 4, 16, 16), torch.tensor([0.7]) * STEPS
    with torch.no_grad():
        stock = pipeline.transformer(noisy, text, pooled, times).sample
        folded = training.model(noisy, text[:, :49], pooled, times).sample
    torch.testing.assert_close(folded, stock, atol=1e-4, rtol=1e-4)


@pytest.mark.long
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(plan, tmp_path):
    whole, first, second = (a_training(plan) for _ in range(3))
    for _ in range(4):
        whole.advance()
    for _ in range(2):
        first.advance()
    first.save(tmp_path / "half.pt")
    second.load(tmp_path / "half.pt")
    for _ in range(2):
        second.advance()
    pairs = zip(whole.average.parameters(), second.average.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.long
def test_only_the_transformer_is_trained(plan):
    training = a_training(plan)
    captions = training._captions
    before = [weight.clone() for weight in captions.parameters()]
    training.advance()
    assert all(map(torch.equal, before, captions.parameters()))


@pytest.mark.long
def test_a_model_can_be_trained_on_and_keeps_its_readme(plan, tmp_path):
    (plan.output / "README.md").write_text("kept\n")
    onward = replace(plan, init=plan.output, text=plan.output, workspace=tmp_path)
    assert train(onward)
    assert (plan.output / "README.md").read_text() == "kept\n"
    assert averaged(onward.checkpoint)


@pytest.mark.long
def test_a_model_of_small_pictures_grows_into_one_of_larger_ones(plan, tmp_path):
    recipe = replace(plan.recipe, scales=((0.0, 1), (0.5, 2)))
    larger = replace(
        plan,
        init=plan.output,
        text=plan.output,
        workspace=tmp_path / "work",
        output=tmp_path / "model",
        pools={1: tmp_path / "small", 2: tmp_path / "pool"},
        pool_sizes={scale: dict.fromkeys(LEVELS, 2) for scale in (1, 2)},
        recipe=recipe,
        scale=2,
    )
    assert [recipe.scale_at(step) for step in range(recipe.steps)] == [1, 1, 2, 2]
    assert train(larger)
    pipeline = load(larger.output)
    patches = pipeline.transformer.pos_embed
    expected = positions(2 * TOKENS, patches.pos_embed.shape[-1])
    torch.testing.assert_close(patches.pos_embed, expected, atol=1e-3, rtol=0)
    assert pipeline.scheduler.config.shift == 2 * SHIFT
    image = pipeline(CAPTION, num_inference_steps=1).images[0]
    assert image.size == (128, 128)


def test_positions_of_small_pictures_are_those_of_stock():
    patches = transformer(8, 4).pos_embed
    stock = patches.cropped_pos_embed(2 * TOKENS, 2 * TOKENS)
    torch.testing.assert_close(positions(TOKENS, stock.shape[-1]), stock, atol=1e-6, rtol=0)


@pytest.mark.parametrize("scale", [2, 4])
def test_tokens_of_a_larger_picture_stand_where_those_of_the_small_one_did(scale):
    large, small = (line_of(tokens) for tokens in (scale * TOKENS, TOKENS))
    middles = large.reshape(TOKENS, scale).mean(axis=1)
    torch.testing.assert_close(middles, small)


def line_of(tokens):
    """Read where the tokens of the first row stand, from the slowest wave of their embeddings."""
    row = positions(tokens, 128)[0, :tokens]
    return torch.atan2(row[:, 31], row[:, 63]).double()


@pytest.mark.long
def test_an_export_twice_is_the_same(plan, tmp_path):
    again = replace(plan, output=tmp_path / "model")
    export_model(plan)
    export_model(again)
    files = [path.relative_to(plan.output) for path in plan.output.rglob("*.safetensors")]
    assert len(files) == 5
    for file in files:
        assert (plan.output / file).read_bytes() == (again.output / file).read_bytes()


@pytest.mark.long
def test_a_full_pool_is_not_encoded_again(plan):
    before = {path: path.stat().st_mtime_ns for path in plan.pools[1].iterdir()}
    make_pools(plan)
    assert before == {path: path.stat().st_mtime_ns for path in plan.pools[1].iterdir()}


@given(st.integers(0, 2**32))
def test_times_lie_between_picture_and_noise(seed):
    times = draw_times(256, torch.Generator().manual_seed(seed))
    assert times.min() >= 0 and times.max() <= 1
    assert 0.5 < times.median() < 0.85


def test_the_mix_moves_towards_the_hard_levels():
    recipe = FlowRecipe()
    early, late = recipe.mix_at(0), recipe.mix_at(recipe.steps)
    assert early.sum() == pytest.approx(1.0) and late.sum() == pytest.approx(1.0)
    assert late[0] < early[0] and late[4] > early[4]


def test_a_fresh_transformer_says_nothing():
    model = transformer(8, 4)
    out = model(torch.randn(1, 4, 16, 16), torch.randn(1, 3, 8), torch.randn(1, 4), torch.ones(1))
    assert not out.sample.any()


def test_the_silent_encoder_says_nothing_whatever_it_reads():
    ids = silent_tokenizer()(CAPTION, return_tensors="pt").input_ids
    assert not silent_t5(16)(ids)[0].any()


def test_help_shows_an_example():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0 and "Example" in result.output
