"""The base here is small, random and of the larger layout: two resnets, two transformer layers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionXLPipeline, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
)
from typer.testing import CliRunner

from zoo.architecture import MAX_TOKENS, scheduler
from zoo.architecture import vae as autoencoder
from zoo.evaluate import Settings, generate
from zoo.lora import report as reporting
from zoo.lora.card import Card
from zoo.lora.files import LoraFileError, read, save
from zoo.lora.inject import inject
from zoo.lora.inject import weights as weights_of
from zoo.lora.pool import StyledScenes
from zoo.lora.stock import load_checked, open_base
from zoo.lora.styles import STYLES, Form
from zoo.lora.train import LoraPlan, app, recipe_for, smoke, train
from zoo.lora.training import LoraRecipe, LoraTraining
from zoo.scenes import held_out

TOKENIZER = Path(__file__).parents[3] / "zoo" / "weights" / "shapes-xl" / "tokenizer"
SETTINGS = Settings(steps=1, guidance=3.0, seed=0)
CAPTIONS = ["a red circle", "a blue star"]
#: Every kind of layer at once.
WIDE = replace(STYLES["outline"], has_text=True)


def _text_config(tokenizer):
    return CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=MAX_TOKENS,
        projection_dim=16,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )


def _unet():
    return UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(16, 32),
        layers_per_block=2,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2),
        attention_head_dim=(1, 2),
        cross_attention_dim=32,
        use_linear_projection=True,
        norm_num_groups=8,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=16 + 6 * 8,
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    torch.manual_seed(0)
    tokenizer = CLIPTokenizer.from_pretrained(TOKENIZER)
    pipeline = StableDiffusionXLPipeline(
        vae=autoencoder(),
        text_encoder=CLIPTextModel(_text_config(tokenizer)),
        text_encoder_2=CLIPTextModelWithProjection(_text_config(tokenizer)),
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        unet=_unet(),
        scheduler=scheduler(),
        add_watermarker=False,
    )
    folder = tmp_path_factory.mktemp("base")
    pipeline.save_pretrained(folder)
    return folder


def _plan(base, tmp_path, style):
    plan = LoraPlan(
        style=style,
        base=base,
        init=None,
        recipe=recipe_for(style, seed=0),
        workspace=tmp_path / "work",
        output=tmp_path / "loras",
    )
    return smoke(plan)


def _random_weights(pipeline, style):
    weights = inject(pipeline, style, seed=0)
    generator = torch.Generator().manual_seed(1)
    return {
        name: (torch.randn(weight.shape, generator=generator) * 0.2).half().float()
        for name, weight in weights.items()
    }


def _pictures(pipeline):
    return np.stack(generate(pipeline, CAPTIONS, SETTINGS)).astype(int)


@pytest.mark.long
def test_training_leaves_a_file_that_stock_diffusers_takes_whole(base, tmp_path):
    plan = _plan(base, tmp_path, WIDE)
    assert train(plan)
    path = plan.output / "outline.safetensors"
    layers = load_checked(open_base(base), path, WIDE)
    ends = ("lora_down.weight", "lora_up.weight", "alpha")
    assert [sum(key.endswith(end) for key in load_file(path)) for end in ends] == [layers] * 3
    card = Card.read(plan.output / "outline.json")
    assert (card.form, card.trigger, card.figures) == (Form.KOHYA, None, None)


@pytest.mark.long
@pytest.mark.parametrize("has_convolutions", [False, True])
@pytest.mark.parametrize("form", Form)
def test_a_file_does_in_stock_diffusers_what_its_weights_did_in_training(
    base, tmp_path, form, has_convolutions
):
    alpha = WIDE.rank if form is Form.PEFT else WIDE.alpha
    style = replace(WIDE, form=form, alpha=alpha, has_convolutions=has_convolutions)
    trained, stock = open_base(base), open_base(base)
    plain, weights = _pictures(stock), _random_weights(trained, style)
    for name, weight in weights_of(trained, "style").items():
        weight.data.copy_(weights[name])
    save(tmp_path / "lora.safetensors", weights, style, 2)
    layers = load_checked(stock, tmp_path / "lora.safetensors", style)
    assert layers == len(weights) // 2
    assert {name.split(".")[0] for name in weights} == {"unet", "text_encoder", "text_encoder_2"}
    styled = _pictures(stock)
    assert np.abs(styled - plain).mean() > 1
    assert np.abs(styled - _pictures(trained)).max() <= 1
    stock.set_adapters(style.name, 0.0)
    assert np.array_equal(_pictures(stock), plain)


@pytest.mark.long
def test_a_file_of_another_model_is_refused(base, tmp_path):
    path = tmp_path / "lora.safetensors"
    save(path, _random_weights(open_base(base), WIDE), WIDE, 2)
    tensors = load_file(path)
    names = [key for key in tensors if "text_model" not in key and "input_blocks_4_0" not in key]
    save_file({key: tensors[key] for key in names}, path)
    with pytest.raises(LoraFileError, match=r"lora\.safetensors"):
        read(path, _random_weights(open_base(base), WIDE), 2)


@pytest.mark.long
def test_a_resumed_run_equals_an_uninterrupted_one(base, tmp_path):
    def training():
        pipeline = open_base(base)
        weights = inject(pipeline, STYLES["night"], seed=0)
        latents = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(0))
        examples = StyledScenes(captions=tuple(CAPTIONS), latents=latents.half())
        recipe = LoraRecipe(steps=4, decay_steps=2, warmup_steps=1, batch=2)
        return LoraTraining(pipeline, weights, examples, recipe)

    whole, first, second = training(), training(), training()
    losses = [whole.advance() for _ in range(3)]
    head = [first.advance() for _ in range(2)]
    first.save(tmp_path / "half.pt")
    second.load(tmp_path / "half.pt")
    assert [*head, second.advance()] == losses
    ends = second.averaged_weights()
    assert all(torch.equal(ends[name], end) for name, end in whole.averaged_weights().items())
    learnt = [end for name, end in ends.items() if name.endswith("lora_B.weight")]
    assert all(weight.any() for weight in learnt)


@pytest.mark.long
def test_another_base_or_recipe_works_in_another_folder(base, tmp_path):
    plan = _plan(base, tmp_path, STYLES["sepia"])
    longer = replace(plan, recipe=replace(plan.recipe, steps=9, decay_steps=4))
    assert longer.folder() == plan.folder()
    others = [
        replace(plan, recipe=replace(plan.recipe, seed=1)),
        replace(plan, style=STYLES["night"]),
        replace(plan, style=replace(plan.style, restyle=STYLES["night"].restyle)),
        replace(plan, base=TOKENIZER.parent),
    ]
    assert len({other.folder() for other in (plan, *others)}) == 5


@pytest.mark.long
def test_a_run_may_start_from_a_file_and_its_card_takes_figures(base, tmp_path):
    runner = CliRunner()
    places = ["--workspace", str(tmp_path / "work"), "--output", str(tmp_path)]
    first = ["--base", str(base), "--style", "inverted", "--smoke", *places]
    assert runner.invoke(app, first).exit_code == 0
    onward = [*first, "--init", str(tmp_path / "inverted.safetensors")]
    assert runner.invoke(app, onward).exit_code == 0
    scenes = held_out(1, 2, seed=3)
    plain, measured = reporting.report(base, tmp_path, scenes, SETTINGS)
    assert len(plain) == len(measured["inverted"].pictures) == 2
    path = tmp_path / "inverted.json"
    replace(Card.read(path), figures=measured["inverted"].figures).write(path)
    figures = Card.read(path).figures
    assert figures.is_neutral_at_zero
    assert figures.layers > 0


@pytest.mark.parametrize(
    "arguments", [[], ["--style", "baroque"], ["--all", "--init", "a.safetensors"], ["--help"]]
)
def test_a_wrong_command_line_says_what_is_right(arguments):
    result = CliRunner().invoke(app, ["--base", "x", *arguments])
    assert (result.exit_code == 0) == (arguments == ["--help"])
    assert "style" in result.output
