"""A single file becomes the stock folder that it was made of."""

import json
import shutil

import diffusers
import pytest
import torch
from diffusers.loaders.single_file_utils import convert_flux_transformer_checkpoint_to_diffusers
from safetensors.torch import load_file, save_file

from catalog.description.folder import describe
from core.errors import ModelRefused
from tests import original
from tests.models import make_text_encoder, make_unet, save_flux, save_sd, save_sdxl
from tests.stock import load_stock
from tests.tokenizers import make_tokenizer
from worker.checkpoints.convert import convert

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def base_sd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sd") / "base"
    save_sd(folder)
    return folder


def weights_of(folder):
    return {
        f"{path.parent.name}.{name}": tensor
        for path in folder.glob("*/*.safetensors")
        for name, tensor in load_file(path).items()
    }


def is_same(one, other):
    a, b = weights_of(one), weights_of(other)
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)


def test_a_file_becomes_the_folder_that_it_was_made_of(base_sd, tmp_path):
    file = original.save_sd_file(load_stock(base_sd), tmp_path / "mine.safetensors")
    convert(file, tmp_path / "made", base_sd)
    assert is_same(tmp_path / "made", base_sd)
    assert describe(tmp_path / "made").model.family == "sd"
    assert load_stock(tmp_path / "made").tokenizer("a red circle").input_ids


def test_sdxl_with_both_its_encoders(tmp_path):
    save_sdxl(tmp_path / "base")
    pipe = load_stock(tmp_path / "base")
    config = pipe.text_encoder_2.config
    config.hidden_size, config.intermediate_size = 64, 70
    torch.manual_seed(9)
    pipe.register_modules(
        text_encoder_2=type(pipe.text_encoder_2)(config),
        unet=make_unet(
            cross_attention_dim=96,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=80,
            use_linear_projection=True,
        ),
    )
    shutil.rmtree(tmp_path / "base")
    pipe.save_pretrained(tmp_path / "base")
    file = original.save_sdxl_file(pipe, tmp_path / "mine.safetensors")
    convert(file, tmp_path / "made", tmp_path / "base")
    assert is_same(tmp_path / "made", tmp_path / "base")


@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
@pytest.mark.parametrize("has_guidance", [True, False], ids=["dev", "schnell"])
def test_a_flux_transformer_keeps_its_names_and_shapes(prefix, has_guidance):
    with torch.device("meta"):  # of full width: diffusers takes no other
        module = diffusers.FluxTransformer2DModel(
            num_layers=2, num_single_layers=2, guidance_embeds=has_guidance
        )
    named = original.prefixed(prefix, original.Flux(module).found)
    converted = convert_flux_transformer_checkpoint_to_diffusers(named)
    shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
    assert {name: tensor.shape for name, tensor in converted.items()} == shapes


def test_a_flux_file_asks_for_a_base(tmp_path):
    save_flux(tmp_path / "base")
    state = original.Flux(load_stock(tmp_path / "base").transformer).found
    file = original.save(tmp_path / "mine.safetensors", state)
    with pytest.raises(ModelRefused, match="--base"):
        convert(file, tmp_path / "none")


def schedule_of(folder):
    return (folder / "scheduler" / "scheduler_config.json").read_text()


@pytest.mark.parametrize(
    ("marks", "stated", "told"),
    [
        ((), {"modelspec.prediction_type": "v"}, {"prediction_type": "v_prediction"}),
        (("v_pred", "ztsnr"), {}, {"prediction_type": "v_prediction",
                                   "rescale_betas_zero_snr": True,
                                   "timestep_spacing": "trailing"}),
    ],
)  # fmt: skip
def test_what_a_file_states_of_its_schedule_is_written_over_that_of_its_base(
    base_sd, tmp_path, marks, stated, told
):
    file = original.save_sd_file(load_stock(base_sd), tmp_path / "mine.safetensors")
    tensors = load_file(file) | {mark: torch.zeros(1) for mark in marks}
    save_file(tensors, tmp_path / "marked.safetensors", stated)
    before = schedule_of(base_sd)
    convert(tmp_path / "marked.safetensors", tmp_path / "made", base_sd)
    assert json.loads(schedule_of(tmp_path / "made")) == json.loads(before) | told
    assert schedule_of(base_sd) == before
    assert is_same(tmp_path / "made", base_sd)


def test_what_is_guessed_from_a_name_leaves_the_schedule_of_a_base_as_it_was(base_sd, tmp_path):
    file = original.save_sd_file(load_stock(base_sd), tmp_path / "lightning.safetensors")
    convert(file, tmp_path / "made", base_sd)
    assert schedule_of(tmp_path / "made") == schedule_of(base_sd)


def test_half_precision_stays_what_it_is(base_sd, tmp_path):
    pipe = load_stock(base_sd)
    pipe.to(dtype=torch.float16)
    file = original.save_sd_file(pipe, tmp_path / "mine.safetensors")
    convert(file, tmp_path / "made", base_sd)
    assert describe(tmp_path / "made").dtypes == ("F16",)


def test_a_file_with_a_gap_is_refused_by_its_name(base_sd, tmp_path):
    file = original.save_sd_file(load_stock(base_sd), tmp_path / "mine.safetensors")
    tensors = load_file(file)
    del tensors["cond_stage_model.transformer.text_model.final_layer_norm.weight"]
    file = original.save(tmp_path / "gap.safetensors", tensors)
    with pytest.raises(ModelRefused, match=r"text_encoder is not whole.*final_layer_norm"):
        convert(file, tmp_path / "made", base_sd)
    assert not (tmp_path / "made" / "model_index.json").exists()


def test_a_file_that_does_not_fit_its_base_is_refused(base_sd, tmp_path):
    pipe = load_stock(base_sd)
    wide = make_unet(cross_attention_dim=48)
    pipe.register_modules(unet=wide)
    file = original.save_sd_file(pipe, tmp_path / "mine.safetensors")
    with pytest.raises(ModelRefused, match="unet does not fit"):
        convert(file, tmp_path / "made", base_sd)


def test_a_base_without_weights_cannot_lend_them(base_sd, tmp_path):
    pipe = load_stock(base_sd)
    state = original.prefixed("model.diffusion_model.", original.unet(pipe.unet))
    file = original.save(tmp_path / "mine.safetensors", state)
    shutil.copytree(base_sd, tmp_path / "base", ignore=shutil.ignore_patterns("*.safetensors"))
    with pytest.raises(ModelRefused, match="neither the file nor base has text_encoder, vae"):
        convert(file, tmp_path / "made", tmp_path / "base")
    convert(file, tmp_path / "made", base_sd)
    assert is_same(tmp_path / "made", base_sd)


def test_a_made_folder_names_no_safety_checker(base_sd, tmp_path):
    file = original.save_sd_file(load_stock(base_sd), tmp_path / "mine.safetensors")
    convert(file, tmp_path / "made", base_sd)
    index = json.loads((tmp_path / "made" / "model_index.json").read_text())
    assert index["safety_checker"] == [None, None]
    assert index["_diffusers_version"] == diffusers.__version__
    assert make_text_encoder(make_tokenizer()) is not None
