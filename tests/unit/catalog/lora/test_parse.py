import time
from contextlib import suppress

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from catalog.lora.metadata import StatedAlphas
from catalog.lora.names import name_layers
from catalog.lora.parse import parse
from core.errors import WeightsRefused
from tests.loras import KOHYA, as_bytes, factors, kohya_name, save_kohya, save_old, save_peft
from worker.lora.mix import Lora, Mix

#: Layers of a UNet with two resnets a block, and of two text encoders.
SHAPES = {
    "unet.conv_in": (8, 4, 3, 3),
    "unet.time_embedding.linear_1": (16, 8),
    "unet.down_blocks.0.resnets.0.conv1": (8, 8, 3, 3),
    "unet.down_blocks.0.resnets.1.time_emb_proj": (8, 16),
    "unet.down_blocks.0.downsamplers.0.conv": (8, 8, 3, 3),
    "unet.down_blocks.1.resnets.0.conv_shortcut": (12, 8, 1, 1),
    "unet.down_blocks.1.attentions.0.proj_in": (12, 12),
    "unet.down_blocks.1.attentions.1.transformer_blocks.0.attn1.to_out.0": (12, 12),
    "unet.mid_block.resnets.1.conv2": (12, 12, 3, 3),
    "unet.mid_block.attentions.0.transformer_blocks.1.ff.net.2": (12, 48),
    "unet.up_blocks.0.attentions.2.proj_out": (12, 12),
    "unet.up_blocks.0.upsamplers.0.conv": (12, 12, 3, 3),
    "unet.up_blocks.1.resnets.2.conv1": (8, 20, 3, 3),
    "unet.up_blocks.1.upsamplers.0.conv": (8, 8, 3, 3),
    "text_encoder.encoder.layers.0.self_attn.q_proj": (8, 8),
    "text_encoder_2.encoder.layers.1.mlp.fc1": (16, 8),
}

#: As sd-scripts names some of them: https://github.com/kohya-ss/sd-scripts.
ORIGINAL = {
    "unet.conv_in": "lora_unet_input_blocks_0_0",
    "unet.time_embedding.linear_1": "lora_unet_time_embed_0",
    "unet.down_blocks.0.resnets.0.conv1": "lora_unet_input_blocks_1_0_in_layers_2",
    "unet.down_blocks.0.resnets.1.time_emb_proj": "lora_unet_input_blocks_2_0_emb_layers_1",
    "unet.down_blocks.0.downsamplers.0.conv": "lora_unet_input_blocks_3_0_op",
    "unet.down_blocks.1.resnets.0.conv_shortcut": "lora_unet_input_blocks_4_0_skip_connection",
    "unet.down_blocks.1.attentions.0.proj_in": "lora_unet_input_blocks_4_1_proj_in",
    "unet.down_blocks.1.attentions.1.transformer_blocks.0.attn1.to_out.0": (
        "lora_unet_input_blocks_5_1_transformer_blocks_0_attn1_to_out_0"
    ),
    "unet.mid_block.resnets.1.conv2": "lora_unet_middle_block_2_out_layers_3",
    "unet.mid_block.attentions.0.transformer_blocks.1.ff.net.2": (
        "lora_unet_middle_block_1_transformer_blocks_1_ff_net_2"
    ),
    "unet.up_blocks.0.attentions.2.proj_out": "lora_unet_output_blocks_2_1_proj_out",
    "unet.up_blocks.0.upsamplers.0.conv": "lora_unet_output_blocks_2_2_conv",
    "unet.up_blocks.1.resnets.2.conv1": "lora_unet_output_blocks_5_0_in_layers_2",
    "unet.up_blocks.1.upsamplers.0.conv": "lora_unet_output_blocks_5_1_conv",
}

LAYER = "unet.down_blocks.1.attentions.0.proj_in"


@pytest.fixture(scope="module")
def drawn():
    return factors(SHAPES, ("",))


def changes(data, shapes=SHAPES):
    """What a file changes: layer -> scale * up @ down."""
    lora = Lora.of("x", as_bytes(data), parse(data, shapes))
    mix = Mix.of([(lora, 1.0)])
    found = {}
    for layer in mix.layers():
        down, up = mix.product(layer, torch.empty(shapes[layer]))
        found[layer] = up @ down.flatten(1)
    return found


def expected(drawn, scale=lambda layer: 1.0):
    return {
        layer: scale(layer) * (up.flatten(1) @ down.flatten(1))
        for layer, (down, up) in drawn.items()
    }


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for layer, change in wanted.items():
        torch.testing.assert_close(found[layer], change)


def test_every_format_says_the_same(drawn, tmp_path):
    path = tmp_path / "lora.safetensors"
    alphas = dict.fromkeys(drawn, 4.0)
    assert_same(changes(save_peft(path, drawn).read_bytes()), expected(drawn))
    assert_same(changes(save_old(path, drawn).read_bytes()), expected(drawn))
    assert_same(changes(save_kohya(path, drawn, alphas).read_bytes()), expected(drawn))
    original = save_kohya(path, drawn, alphas, lambda it: ORIGINAL.get(it) or kohya_name(it))
    assert_same(changes(original.read_bytes()), expected(drawn))


def test_the_oldest_names_of_attentions_and_text_encoders_are_known():
    names = name_layers(SHAPES)
    attention = "unet.down_blocks.1.attentions.1.transformer_blocks.0.attn1"
    assert names[f"{attention}.processor.to_out"] == f"{attention}.to_out.0"
    text = "text_encoder.text_model.encoder.layers.0.self_attn.to_q"
    assert names[text] == "text_encoder.encoder.layers.0.self_attn.q_proj"
    alone = {"text_encoder.encoder.layers.0.mlp.fc1": (8, 8)}
    assert "lora_te_text_model_encoder_layers_0_mlp_fc1" in name_layers(alone)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("input_blocks.2.0.emb_layers.1", "down_blocks.0.resnets.1.time_emb_proj"),
        ("input_blocks.4.1.proj_in", "down_blocks.1.attentions.0.proj_in"),
        ("middle_block.1.transformer_blocks.1.ff.net.2",
         "mid_block.attentions.0.transformer_blocks.1.ff.net.2"),
        ("output_blocks.2.2.conv", "up_blocks.0.upsamplers.0.conv"),
    ],
)  # fmt: skip
def test_front_ends_name_the_published_unet_with_dots(name, layer):
    assert name_layers(SHAPES)[f"diffusion_model.{name}"] == f"unet.{layer}"


def test_each_layer_counts_by_its_own_alpha_and_rank(drawn, tmp_path):
    alphas = {layer: float(at) for at, layer in enumerate(drawn)}
    path = save_kohya(tmp_path / "mixed.safetensors", drawn, alphas)
    assert_same(changes(path.read_bytes()), expected(drawn, lambda layer: alphas[layer] / 4))


@pytest.mark.parametrize(
    ("stated", "scale"),
    [
        ({"unet.lora_alpha": 2}, 0.5),
        ({"unet.lora_alpha": 2, "unet.alpha_pattern": {"attentions.0.proj_in": 12}}, 3.0),
        ({"unet.lora_alpha": 2, "unet.use_rslora": True}, 1.0),
        ({"text_encoder.lora_alpha": 2}, 1.0),
    ],
)
def test_alphas_that_diffusers_states_beside_the_tensors_count(drawn, tmp_path, stated, scale):
    path, one = tmp_path / "a.safetensors", {LAYER: drawn[LAYER]}
    save_peft(path, one, {"lora_adapter_metadata": msgspec.json.encode(stated).decode()})
    assert_same(changes(path.read_bytes()), expected(one, lambda _: scale))


def test_factors_of_other_sides_that_mean_the_same_fit():
    convolution, linear = {"unet.conv_in": (8, 4, 1, 1)}, {"unet.conv_in": (8, 4)}
    flat, square = factors(linear, ("",)), factors(convolution, ("",))
    for shapes, drawn in ((convolution, flat), (linear, square)):
        tensors = {
            f"lora_unet_conv_in{r}": t for r, t in zip(KOHYA, drawn["unet.conv_in"], strict=True)
        }
        assert_same(changes(save(tensors), shapes), expected(drawn))


DOWN, UP = torch.zeros(4, 12), torch.zeros(12, 4)
NAME = f"{LAYER}.lora_A.weight"


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({}, "no tensor"),
        ({NAME: DOWN}, "up is missing"),
        ({NAME: DOWN, f"{LAYER}.lora_B.weight": torch.zeros(12, 5)}, r"up is \(12, 5\)"),
        ({NAME: torch.zeros(4, 13), f"{LAYER}.lora_B.weight": UP}, r"down is \(4, 13\)"),
        ({NAME: torch.zeros(0, 12), f"{LAYER}.lora_B.weight": torch.zeros(12, 0)}, "down is"),
        ({NAME: DOWN.long(), f"{LAYER}.lora_B.weight": UP}, "kept as I64"),
        ({NAME: DOWN, f"{LAYER}.lora.down.weight": DOWN + 1}, "a second down"),
        ({"unet.nowhere.lora_A.weight": DOWN}, "no such layer"),
        ({LAYER: DOWN}, "no such layer"),
        ({NAME: DOWN, f"{LAYER}.lora_B.weight": UP, f"{LAYER}.alpha": DOWN + 1}, "not one number"),
        ({NAME: DOWN, f"{LAYER}.lora_B.weight": UP, f"{LAYER}.alpha": torch.tensor(torch.inf)},
         "alpha is inf"),
    ],
)  # fmt: skip
def test_what_is_no_lora_for_this_model_is_refused_by_name(tensors, reason):
    with pytest.raises(WeightsRefused, match=reason):
        parse(save(tensors), SHAPES)


CONV, LONG = "lora_unet_down_blocks_0_resnets_0_conv1", 513


@pytest.mark.parametrize(
    "sides",
    [
        {"lora_down.weight": (LONG, 8, 3, 3), "lora_up.weight": (8, LONG)},
        {"lora_down.weight": (LONG, 8), "lora_mid.weight": (2, LONG, 3, 3),
         "lora_up.weight": (8, 2)},
        {"lora_down.weight": (1, 8), "lora_mid.weight": (LONG, 1, 3, 3),
         "lora_up.weight": (8, LONG)},
        {"hada_w1_a": (8, LONG), "hada_w1_b": (LONG, 72), "hada_w2_a": (8, 2),
         "hada_w2_b": (2, 72)},
        {"hada_w1_a": (2, 8), "hada_w1_b": (2, 8), "hada_t1": (2, 2, 3, 3),
         "hada_w2_a": (LONG, 8), "hada_w2_b": (LONG, 8), "hada_t2": (LONG, LONG, 3, 3)},
        {"lokr_w1_a": (2, LONG), "lokr_w1_b": (LONG, 2), "lokr_w2": (4, 4, 3, 3)},
        {"lokr_w1": (2, 2), "lokr_w2_a": (4, LONG), "lokr_w2_b": (LONG, 36)},
        {"lokr_w1": (2, 2), "lokr_t2": (LONG, 1, 3, 3), "lokr_w2_a": (LONG, 4),
         "lokr_w2_b": (1, 4)},
        {"lokr_w1": (2, 2), "lokr_t2": (1, LONG, 3, 3), "lokr_w2_a": (1, 4),
         "lokr_w2_b": (LONG, 4)},
    ],
    ids=range(9),
)  # fmt: skip
def test_a_rank_beyond_any_use_is_refused_whichever_the_form(sides):
    data = save({f"{CONV}.{name}": torch.zeros(shape).half() for name, shape in sides.items()})
    reason = r"down_blocks.0.resnets.0.conv1: rank 513, the weight \(8, 8, 3, 3\); at most 512"
    with pytest.raises(WeightsRefused, match=reason):
        parse(data, SHAPES)


@pytest.mark.parametrize(("sides", "most"), [((12, 8), 512), ((600, 700), 600)])
def test_a_rank_may_be_512_or_the_shorter_side_of_its_weight(sides, most):
    out, into = sides
    for rank in (most, most + 1):
        down, up = torch.zeros(rank, into).half(), torch.zeros(out, rank).half()
        data = save({"unet.proj.lora_A.weight": down, "unet.proj.lora_B.weight": up})
        if rank == most:
            assert parse(data, {"unet.proj": sides})
        else:
            with pytest.raises(WeightsRefused, match=f"rank {rank}, .* at most {most} is read"):
                parse(data, {"unet.proj": sides})


def test_a_dora_without_its_magnitudes_is_refused():
    data = save(
        {NAME: DOWN, f"{LAYER}.lora_B.weight": UP},
        {"lora_adapter_metadata": '{"unet.use_dora": true}'},
    )
    with pytest.raises(WeightsRefused, match="says DoRA, and the magnitudes are missing"):
        parse(data, SHAPES)


@pytest.mark.parametrize(
    "stated",
    ["no JSON", '{"unet.alpha_pattern": {"(a+)+$": 1}}',
     '{"unet.lora_alpha": "many"}'],
)  # fmt: skip
def test_what_is_stated_wrongly_is_refused(stated):
    with pytest.raises(WeightsRefused):
        parse(save({NAME: DOWN}, {"lora_adapter_metadata": stated}), SHAPES)


def test_stated_alphas_are_found_whatever_their_number():
    many = {f"layer.{at}": 1.0 for at in range(9_000)} | {"b.c": 2.0, "c": 3.0}
    stated = {"unet.alpha_pattern": many, "unet.lora_alpha": 7.0}
    alphas = StatedAlphas.read({"lora_adapter_metadata": msgspec.json.encode(stated).decode()})
    began = time.thread_time()
    for _ in range(2000):
        assert alphas.scale("unet.a.b.c", None, 1) == 2.0
        assert alphas.scale("unet.a.c", None, 1) == 3.0
        assert alphas.scale("unet.a.cc", None, 1) == 7.0
    assert time.thread_time() - began < 5.0


PATTERNS = msgspec.json.encode(
    {"a.alpha_pattern": dict.fromkeys(map(str, range(10_001)), 1)}
).decode()


@pytest.mark.parametrize(
    "stated", ["[" * 100_000, PATTERNS, '{"unet.lora_alpha": 1' + "0" * 400 + "}"]
)
def test_what_is_stated_beyond_any_measure_is_refused(stated):
    with pytest.raises(WeightsRefused):
        StatedAlphas.read({"lora_adapter_metadata": stated})


@given(st.data())
def test_no_damage_to_a_file_does_worse_than_being_refused(data):
    whole = bytearray(save({NAME: DOWN, f"{LAYER}.lora_B.weight": UP}))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, 200))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for damaged in (bytes(whole), cut):
        with suppress(WeightsRefused):
            pairs = parse(damaged, SHAPES)
            Lora.of("x", as_bytes(damaged), pairs)
