"""Files that name Flux and SD 3 as published: each layer is changed as diffusers converts it."""

import pytest
import torch
from safetensors.torch import save

from catalog.lora.parse import parse
from core.errors import WeightsRefused
from tests.loras import as_bytes
from tests.published import LAYERS, convert, dotted, draw, kohya
from worker.lora.mix import Lora, Mix


def shapes_of(converted):
    """What a model's folder says: weights of layers, and their biases."""
    shapes = {
        f"transformer.{name.removesuffix('.weight')}": tuple(tensor.shape)
        for name, tensor in converted.items()
        if name.endswith(".weight") and tensor.ndim > 1
    }
    biases = {
        f"transformer.{name}": tuple(tensor.shape)
        for name, tensor in converted.items()
        if name.endswith(".bias")
    }
    return shapes | biases


@pytest.mark.parametrize("write", [kohya, dotted, lambda *a: dotted(*a, prefix="")])
@pytest.mark.parametrize("kind", LAYERS)
def test_every_published_layer_changes_ours_as_diffusers_converts_it(kind, write):
    drawn = draw(LAYERS[kind]())
    converted = convert(kind, drawn, 0.25)
    shapes, data = shapes_of(converted), save(write(drawn, 0.5))
    mix = Mix.of([(Lora.of("x", as_bytes(data), parse(data, shapes)), 2.0)])
    assert mix.is_short
    assert mix.layers() == {name for name in shapes if len(shapes[name]) > 1}
    for layer in mix.layers():
        path = layer.removeprefix("transformer.")
        like = torch.zeros(shapes[layer])
        torch.testing.assert_close(mix.change(layer, like), 2 * converted[f"{path}.weight"])
        torch.testing.assert_close(mix.bias(layer, like), 2 * converted[f"{path}.bias"])


XLABS = {
    "double_blocks.0.processor.qkv_lora1": "double_blocks.0.img_attn.qkv",
    "double_blocks.0.processor.qkv_lora2": "double_blocks.0.txt_attn.qkv",
    "double_blocks.0.processor.proj_lora1": "double_blocks.0.img_attn.proj",
    "double_blocks.0.processor.proj_lora2": "double_blocks.0.txt_attn.proj",
    "single_blocks.0.processor.proj_lora": "single_blocks.0.linear2",
}


def test_xlabs_processors_are_the_layers_beside_which_they_stand():
    drawn = draw(LAYERS["flux"]())
    shapes = shapes_of(convert("flux", drawn, 1.0))
    of_xlabs = {
        f"{name}.{role}.weight": drawn[layer][at]
        for name, layer in XLABS.items()
        for at, role in enumerate(("down", "up"))
    }
    plain = {
        f"{layer}.lora_{'AB'[at]}.weight": drawn[layer][at]
        for layer in XLABS.values()
        for at in range(2)
    }
    of_xlabs |= {
        "single_blocks.0.processor.qkv_lora.down.weight": torch.ones(2, 2),
        "single_blocks.0.processor.qkv_lora.up.weight": torch.ones(3 * 3072, 2),
    }
    one, other = (
        Lora.of("x", as_bytes(save(file)), parse(save(file), shapes)) for file in (of_xlabs, plain)
    )
    for layer, product in other.products.items():
        assert torch.equal(one.products[layer].up, product.up)
        assert torch.equal(one.products[layer].down, product.down)
    assert one.products["transformer.single_transformer_blocks.0.attn.to_v"].up.shape == (3072, 2)


def test_a_layer_under_two_names_and_a_bias_that_is_none_are_refused():
    drawn = draw(LAYERS["flux"]())
    shapes = shapes_of(convert("flux", drawn, 1.0))
    qkv = "double_blocks.0.img_attn.qkv"
    ours = {"transformer_blocks.0.attn.to_k.lora_A.weight": torch.ones(2, 2),
            "transformer_blocks.0.attn.to_k.lora_B.weight": torch.ones(3, 2)}  # fmt: skip
    with pytest.raises(WeightsRefused, match=r"attn.to_k: changed twice, under two names"):
        parse(save(dotted({qkv: drawn[qkv]}, 1.0) | ours), shapes)
    del shapes["transformer.transformer_blocks.0.attn.to_v.bias"]
    with pytest.raises(WeightsRefused, match=r"to_v: a bias in the file, but none in the model"):
        parse(save(dotted({qkv: drawn[qkv]}, 1.0)), shapes)
    by_column = {f"{qkv}.dora_scale": torch.ones(1, 2)}
    with pytest.raises(WeightsRefused, match="DoRA by columns of a layer that is several here"):
        parse(save(dotted({qkv: drawn[qkv]}, 1.0) | by_column), shapes)


@pytest.mark.parametrize("name", [
    "lora_te3_encoder_block_0_layer_0_SelfAttention_q",
    "lora_te2_encoder_block_0_layer_0_SelfAttention_q",
    "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.q",
    "lora_te_text_model_encoder_layers_0_mlp_fc1",
    "text_encoders.clip_l.transformer.text_model.encoder.layers.0.mlp.fc1",
])  # fmt: skip
def test_text_encoders_have_the_names_that_front_ends_give_them(name):
    shapes = {
        "text_encoder.encoder.layers.0.mlp.fc1": (4, 4),
        "text_encoder_2.encoder.block.0.layer.0.SelfAttention.q": (4, 4),
    }
    file = {
        f"{name}.lora_down.weight": torch.ones(1, 4),
        f"{name}.lora_up.weight": torch.ones(4, 1),
    }
    (change,) = parse(save(file), shapes)
    assert change.layer in shapes
