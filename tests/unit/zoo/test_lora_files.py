from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from zoo.lora.files import LoraFileError, read, save
from zoo.lora.kohya import layer_name
from zoo.lora.styles import STYLES, Form

KOHYA = STYLES["outline"]
LAYERS = (
    "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q",
    "unet.up_blocks.0.resnets.1.conv2",
    "text_encoder_2.text_model.encoder.layers.0.self_attn.q_proj",
)


def _weights():
    generator = torch.Generator().manual_seed(0)
    return {
        f"{layer}.{side}.weight": torch.randn(3, 5, generator=generator).half().float()
        for layer in LAYERS
        for side in ("lora_A", "lora_B")
    }


@pytest.mark.parametrize(
    ("layer", "per_block", "name"),
    [
        # The names of SDXL itself, two resnets a block.
        (
            "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q",
            2,
            "lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q",
        ),
        (
            "unet.down_blocks.2.attentions.1.transformer_blocks.9.attn2.to_out.0",
            2,
            "lora_unet_input_blocks_8_1_transformer_blocks_9_attn2_to_out_0",
        ),
        ("unet.down_blocks.0.resnets.0.conv1", 2, "lora_unet_input_blocks_1_0_in_layers_2"),
        ("unet.mid_block.attentions.0.proj_in", 2, "lora_unet_middle_block_1_proj_in"),
        ("unet.mid_block.resnets.1.conv2", 2, "lora_unet_middle_block_2_out_layers_3"),
        ("unet.up_blocks.1.resnets.2.conv1", 2, "lora_unet_output_blocks_5_0_in_layers_2"),
        ("unet.up_blocks.0.attentions.1.proj_out", 2, "lora_unet_output_blocks_1_1_proj_out"),
        ("unet.down_blocks.1.resnets.0.conv1", 1, "lora_unet_input_blocks_3_0_in_layers_2"),
        ("unet.conv_in", 2, "lora_unet_input_blocks_0_0"),
        ("unet.conv_out", 2, "lora_unet_out_2"),
        (
            "text_encoder.text_model.encoder.layers.0.self_attn.q_proj",
            2,
            "lora_te1_text_model_encoder_layers_0_self_attn_q_proj",
        ),
    ],
)
def test_a_layer_has_the_name_that_sd_scripts_gives_it(layer, per_block, name):
    assert layer_name(layer, per_block) == name


def test_a_layer_that_no_style_adapts_has_no_name():
    with pytest.raises(ValueError, match="downsamplers"):
        layer_name("unet.down_blocks.0.downsamplers.0.conv", 2)


@pytest.mark.parametrize("form", Form)
def test_a_file_gives_back_what_was_saved(tmp_path, form):
    path, weights = tmp_path / "lora.safetensors", _weights()
    save(path, weights, replace(KOHYA, form=form), 2)
    stored = read(path, weights, 2)
    assert stored.keys() == weights.keys()
    assert all(torch.equal(stored[name], weight) for name, weight in weights.items())
    assert {tensor.dtype for tensor in load_file(path).values()} == {torch.float16}


def test_every_layer_of_a_kohya_file_has_the_same_alpha(tmp_path):
    save(tmp_path / "lora.safetensors", _weights(), KOHYA, 2)
    tensors = load_file(tmp_path / "lora.safetensors")
    alphas = [tensor.item() for key, tensor in tensors.items() if key.endswith(".alpha")]
    assert alphas == [KOHYA.alpha] * len(LAYERS)


@pytest.mark.parametrize("form", Form)
def test_a_file_that_lacks_a_weight_or_has_another_is_refused(tmp_path, form):
    path, weights = tmp_path / "lora.safetensors", _weights()
    save(path, weights, replace(KOHYA, form=form), 2)
    tensors = load_file(path)
    save_file(dict(list(tensors.items())[1:]), path)
    with pytest.raises(LoraFileError, match=r"lora\.safetensors: 1 tensors missing, 0 unknown"):
        read(path, weights, 2)
    save_file(tensors | {"unet.x.alpha": torch.ones(1)}, path)
    with pytest.raises(LoraFileError, match="1 unknown"):
        read(path, weights, 2)
