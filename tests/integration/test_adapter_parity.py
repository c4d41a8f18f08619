"""An image with an adapter of any form is the stock pipeline's, alone and in company."""

from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.integration.test_lora_parity import images, read, stock
from tests.jobs import a_request
from tests.loras import ATTENTION, factors, save_peft
from tests.models import OF_DIFFUSERS, save_flux, save_sd3, save_sdxl
from tests.stock import difference, load_stock, stock_image
from worker.families.load import load
from worker.lora.mix import PLAIN, Mix

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings(OF_DIFFUSERS),
    pytest.mark.filterwarnings("ignore:Already found a `peft_config` attribute:UserWarning"),
]

TOLERANCE = {"sdxl": 1e-5, "sd3": 1e-4, "t5": 1e-4, "flux": 1e-4}
FAMILIES = {
    "sdxl": save_sdxl,
    "sd3": save_sd3,
    "t5": partial(save_sd3, has_t5=True),
    "flux": save_flux,
}


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    return cache(lambda family: open_house(family, tmp_path_factory.mktemp(family)))


def open_house(family, folder):
    model = FAMILIES[family](folder)
    pipe = load_stock(folder)
    pipe.set_progress_bar_config(disable=True)
    return SimpleNamespace(
        runner=load(folder, model, device="cpu", dtype="float32"), pipe=pipe, folder=folder
    )


def write(house, name, tensors):
    path = Path(house.folder) / f"{name}.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    return path


def pairs(layers, names, kinds, *, rank=4, seed=0, size=0.2, alpha=None):
    """Draw factors of some layers: name in the file, and [out, in] of what is changed."""
    draw = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in layers:
        out, into = names[layer]
        down, up = (torch.randn(*s, generator=draw) * size for s in ((rank, into), (out, rank)))
        tensors |= {f"{layer}{kinds[0]}": down, f"{layer}{kinds[1]}": up}
        if alpha is not None:
            tensors[f"{layer}.alpha"] = torch.tensor(alpha)
    return tensors


KOHYA = (".lora_down.weight", ".lora_up.weight")
#: Of a tiny Flux: 16 wide, with one block of each kind.
FLUX = {
    "lora_unet_double_blocks_0_img_attn_qkv": (48, 16),
    "lora_unet_double_blocks_0_txt_attn_qkv": (48, 16),
    "lora_unet_double_blocks_0_img_attn_proj": (16, 16),
    "lora_unet_double_blocks_0_txt_mod_lin": (96, 16),
    "lora_unet_double_blocks_0_img_mlp_2": (16, 64),
    "lora_unet_single_blocks_0_linear2": (16, 80),
    "lora_unet_single_blocks_0_modulation_lin": (48, 16),
    "lora_te1_text_model_encoder_layers_1_mlp_fc1": (37, 32),
}
XLABS = {
    "double_blocks.0.processor.qkv_lora1": (48, 16),
    "double_blocks.0.processor.qkv_lora2": (48, 16),
    "double_blocks.0.processor.proj_lora1": (16, 16),
}


def company(house, request, mix):
    """An image beside others: one plain, one with another adapter."""
    path = Path(house.folder) / "stranger.safetensors"
    shapes = house.runner.overlays.adapters.shapes
    save_peft(path, factors(shapes, ("to_q", "to_v"), seed=9, parts={"unet", "transformer"}))
    other = Mix.of([(read(house.runner, path), 0.5)])
    return images(
        house.runner,
        (a_request(prompt="plain", seed=5, steps=2), PLAIN),
        (request, mix),
        (a_request(prompt="other", seed=6, steps=2), other),
    )[1]


def assert_as_stock(house, family, path, scale=0.8):
    runner, request = house.runner, a_request(negative_prompt="bad", steps=2)
    mix = Mix.of([(read(runner, path), scale)])
    wanted = stock(house.pipe, request, [(path, scale)])
    (alone,) = images(runner, (request, mix))
    assert difference(alone, wanted) <= TOLERANCE[family]
    assert difference(company(house, request, mix), wanted) <= TOLERANCE[family]
    (plain,) = images(runner, (request, PLAIN))
    assert difference(alone, plain) > 0.01, "the comparison sees nothing"


@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("kohya", pairs(FLUX, FLUX, KOHYA, alpha=3.0)),
        ("xlabs", pairs(XLABS, XLABS, (".down.weight", ".up.weight"))),
    ],
)
def test_flux_as_its_authors_name_it_is_stocks(houses, name, tensors):
    assert_as_stock(houses("flux"), "flux", write(houses("flux"), name, tensors))


@pytest.mark.parametrize("family", ["sd3", "flux"])
def test_a_transformer_as_diffusers_names_it_is_stocks(houses, family):
    house = houses(family)
    shapes = house.runner.overlays.adapters.shapes
    ends = (".to_q", ".add_k_proj", ".to_out.0", "ff.net.2", "norm1.linear")
    drawn = factors(shapes, ends, parts={"transformer"}, size=0.3)
    assert_as_stock(house, family, save_peft(house.folder / "own.safetensors", drawn))


def test_dora_is_stocks(houses):
    house = houses("sdxl")
    shapes, draw = house.runner.overlays.adapters.shapes, torch.Generator().manual_seed(3)
    # Not of text encoders: stock gives these the lengths of their own weights, whatever the file.
    drawn = factors(shapes, ATTENTION, seed=4)
    tensors = load_file(save_peft(house.folder / "dora.safetensors", drawn))
    for name in [name for name in tensors if "lora_B" in name]:
        lengths = torch.rand(len(tensors[name]), generator=draw) + 0.5
        tensors[name.replace(".lora_B.weight", ".lora_magnitude_vector")] = lengths
    assert_as_stock(house, "sdxl", write(house, "dora", tensors))


def a_loha(name, out, into, some):
    a, b, c, d = some(out, 2), some(2, into), some(out, 2), some(2, into)
    roles = zip(("w1_a", "w1_b", "w2_a", "w2_b"), (a, b, c, d), strict=True)
    tensors = {f"{name}.hada_{role}": tensor for role, tensor in roles}
    return 0.5 * (a @ b) * (c @ d), tensors | {f"{name}.alpha": torch.tensor(1.0)}


def a_lokr(name, out, into, some):
    a, b, c = some(4, 4), some(out // 4, 2), some(2, into // 4)
    tensors = {f"{name}.lokr_w1": a, f"{name}.lokr_w2_a": b, f"{name}.lokr_w2_b": c}
    return 0.5 * torch.kron(a, b @ c), tensors | {f"{name}.alpha": torch.tensor(1.0)}


def a_difference(name, out, into, some):
    change = some(out, into) * 0.3
    return change, {f"{name}.diff": change}


@pytest.mark.parametrize("form", [a_loha, a_lokr, a_difference])
def test_what_stock_does_not_read_is_what_its_formula_says(houses, form):
    """Stock reads none of these: its weights are changed by the formula, written out again."""
    house, scale = houses("sdxl"), 0.8
    draw, tensors, changes = torch.Generator().manual_seed(7), {}, {}
    for path, module in house.pipe.unet.named_modules():
        if path.endswith(ATTENTION):
            change, file = form(
                f"lora_unet_{path.replace('.', '_')}",
                *module.weight.shape,
                lambda *shape: torch.randn(*shape, generator=draw) * 0.3,
            )
            tensors, changes[module] = tensors | file, scale * change
    assert_as_changed(house, "sdxl", write(house, form.__name__, tensors), changes, scale)


def assert_as_changed(house, family, path, changes, scale):
    """Compare with stock whose layers are changed by hand: layer -> by how much."""
    request = a_request(negative_prompt="bad", steps=2)
    before = {module: module.weight.detach().clone() for module in changes}
    with torch.no_grad():
        for module, change in changes.items():
            module.weight += change
        wanted = stock_image(house.pipe, house.pipe.scheduler, request)
        for module, weight in before.items():
            module.weight.copy_(weight)
    mix = Mix.of([(read(house.runner, path), scale)])
    (plain,) = images(house.runner, (request, PLAIN))
    (alone,) = images(house.runner, (request, mix))
    assert difference(alone, wanted) <= TOLERANCE[family] < 0.001 < difference(alone, plain)
    assert difference(company(house, request, mix), wanted) <= TOLERANCE[family]


@pytest.mark.parametrize(
    ("family", "encoder"), [("flux", "text_encoder_2"), ("t5", "text_encoder_3")]
)
def test_a_lora_of_t5_which_stock_drops_is_what_it_says(houses, family, encoder):
    house, tensors, changes = houses(family), {}, {}
    draw = torch.Generator().manual_seed(8)
    for path, module in getattr(house.pipe, encoder).named_modules():
        if path.endswith(("SelfAttention.q", "SelfAttention.v", "wi")):
            out, into = module.weight.shape
            down, up = (torch.randn(*s, generator=draw) for s in ((2, into), (out, 2)))
            name = f"lora_te3_{path.replace('.', '_')}"
            tensors |= {f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up}
            changes[module] = up @ down
    assert_as_changed(house, family, write(house, "t5", tensors), changes, 1.0)
