"""Changes that are not two factors, against peft's own layers and against LyCORIS' formulas."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoHaConfig, LoKrConfig, LoraConfig, get_peft_model
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save

from catalog.lora.parse import parse
from core.errors import WeightsRefused
from tests.loras import as_bytes
from worker.lora.merge import Merging
from worker.lora.mix import PLAIN, Lora, Mix

SHAPES = {"flat": (12, 8), "flat.bias": (12,), "conv": (6, 4, 3, 3), "conv.bias": (6,)}


class Two(torch.nn.Module):
    """A linear layer and a convolution."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.flat, self.conv = torch.nn.Linear(8, 12), torch.nn.Conv2d(4, 6, 3)


def shapes(part="unet"):
    return {f"{part}.{name}": shape for name, shape in SHAPES.items()}


def merged(tensors, strength=1.0, dtype=torch.float32):
    """Merge a file: weights and biases of both layers."""
    house, data = Two().to(dtype), save(tensors)
    lora = Lora.of("x", as_bytes(data), parse(data, shapes()))
    layers = {"unet.flat": house.flat, "unet.conv": house.conv}
    merging = Merging(layers)
    merging.apply(Mix.of([(lora, strength)]))
    made = {name: value.clone() for name, value in house.state_dict().items()}
    merging.apply(PLAIN)
    for name, value in Two().to(dtype).state_dict().items():
        assert torch.equal(house.state_dict()[name], value), "not bit for bit what it was"
    return made


TARGETS = {"target_modules": ["flat", "conv"], "r": 3}
FORMS = {
    "dora": LoraConfig(**TARGETS, lora_alpha=5, use_dora=True),
    "biases": LoraConfig(**TARGETS, lora_alpha=5, lora_bias=True),
    "loha": LoHaConfig(**TARGETS, alpha=5),
    "loha, tucker": LoHaConfig(**TARGETS, alpha=5, use_effective_conv2d=True),
    "lokr": LoKrConfig(**TARGETS, alpha=3),  # both factors whole: no rank, and it counts once
    "lokr, both": LoKrConfig(**TARGETS | {"r": 1}, alpha=5, decompose_both=True),
    "lokr, tucker": LoKrConfig(**TARGETS | {"r": 1}, alpha=5, use_effective_conv2d=True),
}


@pytest.mark.filterwarnings("ignore:Adapter 'default'. 2 LoRA tensor.s. have invalid shape")
@pytest.mark.parametrize("strength", [1.0, 0.6])
@pytest.mark.parametrize("form", FORMS)
def test_a_merged_weight_is_pefts(form, strength):
    model = get_peft_model(Two(), FORMS[form])
    torch.manual_seed(1)
    for name, tensor in model.named_parameters():
        if "base_layer" not in name:
            is_length = "magnitude" in name
            tensor.data = torch.rand_like(tensor) + 0.5 if is_length else torch.randn_like(tensor)
    file = get_peft_model_state_dict(model)
    file |= {f"base_model.model.{name}.alpha": torch.tensor(5.0) for name in ("flat", "conv")}
    for layer in (model.base_model.model.flat, model.base_model.model.conv):
        layer.set_scale("default", strength)
    model.merge_adapter()
    theirs = model.base_model.model.state_dict()
    for name, value in merged(file, strength).items():
        wanted = theirs[name.replace(".", ".base_layer.")]
        torch.testing.assert_close(value, wanted, rtol=1e-5, atol=1e-5)


def test_a_difference_is_added_as_it_is():
    torch.manual_seed(2)
    file = {"lora_unet_flat.diff": torch.randn(12, 8), "lora_unet_flat.diff_b": torch.randn(12),
            "lora_unet_conv.diff_b": torch.randn(6)}  # fmt: skip
    made, own = merged(file, 0.5), Two().state_dict()
    for name, key in (("flat.weight", "flat.diff"), ("flat.bias", "flat.diff_b"),
                      ("conv.bias", "conv.diff_b")):  # fmt: skip
        torch.testing.assert_close(made[name], own[name] + 0.5 * file[f"lora_unet_{key}"])
    assert torch.equal(made["conv.weight"], own["conv.weight"])


@pytest.mark.parametrize("by_input", [True, False])
def test_magnitudes_of_lycoris_count_columns_or_rows(by_input):
    torch.manual_seed(3)
    down, up = torch.randn(2, 4, 3, 3), torch.randn(6, 2, 1, 1)
    lengths = torch.rand(1, 4, 1, 1) if by_input else torch.rand(6, 1, 1, 1)
    file = {"lora_unet_conv.lora_down.weight": down, "lora_unet_conv.lora_up.weight": up,
            "lora_unet_conv.alpha": torch.tensor(1.0),
            "lora_unet_conv.dora_scale": lengths}  # fmt: skip
    changed = Two().conv.weight + 0.5 * (up.flatten(1) @ down.flatten(1)).view(6, 4, 3, 3)
    axes = (0, 2, 3) if by_input else (1, 2, 3)
    wanted = changed * lengths / changed.square().sum(axes, keepdim=True).sqrt()
    torch.testing.assert_close(merged(file)["conv.weight"], wanted)


def test_a_lora_in_tuckers_form_is_three_convolutions():
    torch.manual_seed(4)
    down, mid, up = torch.randn(2, 4, 1, 1), torch.randn(3, 2, 3, 3), torch.randn(6, 3, 1, 1)
    file = {"lora_unet_conv.lora_down.weight": down, "lora_unet_conv.lora_mid.weight": mid,
            "lora_unet_conv.lora_up.weight": up}  # fmt: skip
    given, conv = torch.randn(1, 4, 5, 5), torch.nn.functional.conv2d
    own = Two().conv
    changed = conv(given, merged(file)["conv.weight"], own.bias)
    torch.testing.assert_close(
        changed, own(given) + conv(conv(conv(given, down), mid), up), rtol=1e-4, atol=1e-4
    )


def test_tuckers_form_stays_as_small_as_its_file_until_it_is_merged():
    data = save({"lora_unet_conv.lora_down.weight": torch.randn(1, 4, 1, 1),
                 "lora_unet_conv.lora_mid.weight": torch.randn(500, 1, 3, 3),
                 "lora_unet_conv.lora_up.weight": torch.randn(6, 500, 1, 1)})  # fmt: skip
    lora = Lora.of("x", as_bytes(data), parse(data, shapes()))
    assert not lora.products
    assert sum(each.nbytes for each in lora.wholes["unet.conv"].tensors.values()) < len(data)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_numbers_of_eight_bits_count_as_what_they_are_times_their_scales(dtype):
    torch.manual_seed(5)
    down, up = torch.randn(2, 8).to(dtype), torch.randn(12, 2).to(dtype)
    file = {"lora_unet_flat.lora_down.weight": down, "lora_unet_flat.lora_up.weight": up,
            "lora_unet_flat.lora_up.scale_weight": torch.tensor(0.5),
            "lora_unet_flat.alpha": torch.tensor(1.5).to(dtype),
            "scaled_fp8": torch.zeros(1).to(dtype)}  # fmt: skip
    wanted = Two().flat.weight + 0.375 * up.float() @ down.float()
    torch.testing.assert_close(merged(file)["flat.weight"], wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_a_whole_change_is_rounded_once(dtype):
    torch.manual_seed(6)
    difference = torch.randn(12, 8) * 1e-3
    made = merged({"lora_unet_flat.diff": difference}, dtype=dtype)["flat.weight"]
    own = Two().to(dtype).flat.weight
    torch.testing.assert_close(made, (own.float() + difference).to(dtype), rtol=0, atol=0)


F = "lora_unet_flat."


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({F + "hada_w1_a": (12, 2)}, "hada_w1_b is missing, of a LoHa"),
        ({F + "hada_w1_a": (12, 2), F + "hada_w1_b": (2, 8), F + "hada_w2_a": (12, 2),
          F + "hada_w2_b": (2, 9)}, r"hada_w2_b is \(2, 9\)"),
        ({F + "lokr_w1": (3, 2), F + "lokr_w2": (4, 5)}, r"lokr makes \(12, 10\)"),
        ({F + "lokr_w1": (3, 2)}, "lokr_w2 is to be whole, or"),
        ({F + "lokr_w1": (3, 2), F + "lokr_t2": (1, 1)}, "lokr_w2 is to be whole, or"),
        ({F + "lokr_w1": (3, 2), F + "lokr_w2": (4, 4), F + "lokr_t2": (1, 1)}, "that is whole"),
        ({F + "lokr_w1": (3, 0), F + "lokr_w2": (4, 0)}, r"lokr makes \(12, 0\)"),
        ({F + "lokr_w1": (), F + "lokr_w2": (4, 0)}, "lokr_w1 is to be whole, or"),
        ({F + "diff": (12, 7)}, r"diff is \(12, 7\)"),
        ({F + "diff_b": (11,)}, r"diff_b is \(11,\)"),
        ({F + "diff": (12, 8), F + "lora_up.weight": (12, 2)}, "down is missing, of a LoRA"),
        ({F + "diff": (12, 8), F + "hada_w1_a": (12, 2)}, "hada_w1_b is missing"),
        ({F + "dora_scale": (12, 1)}, "dora_scale alone says nothing"),
        ({F + "diff": (12, 8), F + "dora_scale": (12, 1), F + "lora_magnitude_vector": (12,)},
         "magnitudes of DoRA twice"),
        ({F + "diff": (12, 8), F + "dora_scale": (11, 1)}, "dora_scale is"),
        ({"lora_unet_nothing.diff": (12, 8)}, "no such layer"),
        ({"lora_te3_shared.diff": (12, 8)}, "lora_te3_shared.diff: the model has no such layer"),
        ({"image_proj.proj.weight": (12, 8)}, "this file is an IP-Adapter, .* no LoRA"),
        ({"1.to_k_ip.weight": (2, 2), "ip_adapter.1.to_k_ip.weight": (2, 2)}, "1.to_k_ip"),
        ({"bundle_emb.word.clip_l": (2, 2)}, "add them as embeddings"),
        ({F + "oft_diag": (12, 8)}, "OFT is not served"),
        ({F + "w_norm": (12,)}, "a change of norms is not served"),
    ],
)  # fmt: skip
def test_what_is_no_whole_change_of_this_model_is_refused_by_name(tensors, reason):
    file = {name: torch.zeros(shape) for name, shape in tensors.items()}
    with pytest.raises(WeightsRefused, match=reason):
        parse(save(file), shapes())


#: Sides of what tensors of a file may have, each wrong ones too.
SIDES = st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 12]), max_size=4).map(tuple)
TUCKER = {"lokr_w1": (2, 2), "lokr_t2": (1, 2, 3, 3), "lokr_w2_a": (1, 3), "lokr_w2_b": (2, 2)}
WELL = [
    {"lora_down.weight": (2, 4, 3, 3), "lora_up.weight": (6, 2, 1, 1), "dora_scale": (1, 4, 1, 1)},
    {"lora_down.weight": (2, 4), "lora_mid.weight": (3, 2, 3, 3), "lora_up.weight": (6, 3)},
    {"hada_w1_a": (6, 2), "hada_w1_b": (2, 36), "hada_w2_a": (6, 2), "hada_w2_b": (2, 36)},
    {"hada_w1_a": (2, 6), "hada_w1_b": (2, 4), "hada_t1": (2, 2, 3, 3),
     "hada_w2_a": (2, 6), "hada_w2_b": (2, 4), "hada_t2": (2, 2, 3, 3), "diff_b": (6,)},
    {"lokr_w1_a": (2, 1), "lokr_w1_b": (1, 2), "lokr_w2": (3, 2, 3, 3), "dora_scale": (6, 1, 1, 1)},
    {"lokr_w1": (2, 2), "lokr_w2_a": (3, 1), "lokr_w2_b": (1, 18)},
    TUCKER,
    {"diff": (6, 4, 3, 3), "lora_magnitude_vector": (1, 6, 1, 1)},
]  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_what_is_taken_at_upload_can_be_merged(data):
    roles = dict(data.draw(st.sampled_from(WELL)))
    for _ in range(data.draw(st.integers(0, 2))):
        names = sorted({*roles, "diff_b", "dora_scale", "lokr_t2", "lora_mid.weight", "lokr_w2"})
        roles[data.draw(st.sampled_from(names))] = data.draw(SIDES)
    file = save({f"lora_unet_conv.{name}": torch.ones(shape) for name, shape in roles.items()})
    try:
        changes = parse(file, shapes())
    except WeightsRefused:
        return
    mix = Mix.of([(Lora.of("x", as_bytes(file), changes), 0.5)])
    own = Two().conv
    change, bias = mix.change("unet.conv", own.weight), mix.bias("unet.conv", own.weight)
    assert change is None or change.shape == own.weight.shape
    assert bias is None or bias.shape == own.bias.shape


@pytest.mark.parametrize("at", range(len(WELL)))
def test_each_of_these_is_well_formed(at):
    file = save({f"lora_unet_conv.{name}": torch.ones(shape) for name, shape in WELL[at].items()})
    assert parse(file, shapes())
