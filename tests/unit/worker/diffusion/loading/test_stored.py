import shutil
from pathlib import Path

import diffusers
import pytest
import torch
from diffusers import AutoencoderKL

from catalog.weights import read_components
from core.errors import BadWeights
from tests.cases import rarely_but
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from worker.diffusion.device import DTYPES
from worker.diffusion.loading.pipelines import load_pipeline
from worker.diffusion.loading.stored import open_tensors

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

SAVED = {
    "StableDiffusionPipeline": save_sd,
    "StableDiffusionXLPipeline": save_sdxl,
    "StableDiffusion3Pipeline": lambda folder: save_sd3(folder, has_t5=True),
    "FluxPipeline": save_flux,
}
DAILY = ("StableDiffusionXLPipeline", "FluxPipeline")


@pytest.fixture(scope="module", params=rarely_but(DAILY, SAVED))
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    SAVED[request.param](folder)
    return request.param, folder


def tensors_of(pipe):
    return {
        f"{part}.{name}": tensor
        for part, module in pipe.components.items()
        if isinstance(module, torch.nn.Module)
        for kind in (module.named_parameters, module.named_buffers)
        for name, tensor in kind(remove_duplicate=False)
    }


def stock(class_name, folder, dtype, **kwargs):
    return getattr(diffusers, class_name).from_pretrained(str(folder), dtype=dtype, **kwargs)


def assert_equal_to_stock(class_name, folder, dtype, **kwargs):
    ours = tensors_of(load_pipeline(folder, class_name, dtype))
    theirs = tensors_of(stock(class_name, folder, dtype, **kwargs))
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype, name
        assert torch.equal(ours[name], tensor), name


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_tensor_is_the_one_that_stock_loads(saved, dtype):
    assert_equal_to_stock(*saved, dtype)


def test_so_it_is_from_shards_in_half_precision(saved, tmp_path):
    class_name, whole = saved
    folder = tmp_path / "tiny"
    stock(class_name, whole, torch.float16).save_pretrained(folder, max_shard_size="100KB")
    sharded = [part for part in read_components(folder, class_name) if len(part.files) > 1]
    assert sharded
    for dtype in (torch.float16, torch.float32):
        assert_equal_to_stock(class_name, folder, dtype)


def test_so_it_is_from_a_variant(saved, tmp_path):
    class_name, whole = saved
    folder = tmp_path / "tiny"
    stock(class_name, whole, torch.float16).save_pretrained(folder, variant="fp16")
    assert_equal_to_stock(class_name, folder, torch.float16, variant="fp16")


def test_t5_keeps_its_island_of_single_precision_in_fp16_alone(tmp_path):
    save_flux(tmp_path / "tiny")
    for dtype, island in ((torch.float16, torch.float32), (torch.bfloat16, torch.bfloat16)):
        t5 = load_pipeline(tmp_path / "tiny", "FluxPipeline", dtype).text_encoder_2
        found = {n.split(".")[-2]: p.dtype for n, p in t5.named_parameters()}
        assert found.pop("wo") == island
        assert set(found.values()) == {dtype}


def test_a_decoder_with_names_of_old_loads_as_stock_loads_it(saved, tmp_path):
    from safetensors.torch import load_file, save_file

    class_name, whole = saved
    folder = shutil.copytree(whole, tmp_path / "tiny")
    file = folder / "vae/diffusion_pytorch_model.safetensors"
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    tensors = load_file(file)
    for new, name in old.items():
        tensors = {k.replace(f".{new}.", f".{name}."): v for k, v in tensors.items()}
    save_file(tensors, file, {"format": "pt"})
    assert any(".proj_attn." in name for name in tensors)
    assert_equal_to_stock(class_name, folder, torch.float32)


def test_what_no_file_has_is_computed(tmp_path):
    """Without a largest size, the places of a transformer are no part of its weights."""
    save_sd3(tmp_path / "tiny", has_t5=True, pos_embed_max_size=None)
    assert_equal_to_stock("StableDiffusion3Pipeline", tmp_path / "tiny", torch.float32)


def test_loading_changes_nothing_that_other_threads_read(saved, monkeypatch):
    """Neither torch's default dtype, nor how modules are made."""
    register = torch.nn.Module.register_parameter

    def watched(module, name, value):
        assert torch.nn.Module.register_parameter is watched
        register(module, name, value)

    def set_default_dtype(dtype):
        assert dtype == torch.float32

    monkeypatch.setattr(torch.nn.Module, "register_parameter", watched)
    monkeypatch.setattr(torch, "set_default_dtype", set_default_dtype)
    load_pipeline(saved[1], saved[0], torch.float16)


def test_what_is_stored_in_its_precision_is_mapped_and_what_is_cast_is_not(tmp_path):
    AutoencoderKL(block_out_channels=(32,)).save_pretrained(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    maps, before = Path("/proc/self/maps"), file.read_bytes()
    for dtype, is_mapped in ((torch.float32, True), (torch.float16, False)):
        with open_tensors([file], dtype) as tensors:
            weights = {name: tensor[...] for name, tensor in tensors.items()}
        assert (str(file) in maps.read_text()) is is_mapped
        weights["decoder.conv_in.weight"].add_(1)  # as a LoRA that is merged
        assert {weight.dtype for weight in weights.values()} == {dtype}
        assert file.read_bytes() == before
        del weights


def test_a_file_that_was_replaced_changes_no_loaded_weight(tmp_path):
    save_sd(tmp_path / "tiny")
    pipe = load_pipeline(tmp_path / "tiny", "StableDiffusionPipeline", torch.float32)
    before = {name: tensor.clone() for name, tensor in tensors_of(pipe).items()}
    for file in (tmp_path / "tiny").glob("*/*.safetensors"):
        other = file.with_suffix(".new")
        other.write_bytes(bytes(file.stat().st_size))
        other.replace(file)
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors_of(pipe).items())
    with pytest.raises(BadWeights):
        load_pipeline(tmp_path / "tiny", "StableDiffusionPipeline", torch.float32)
