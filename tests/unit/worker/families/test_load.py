import gc
import json
import shutil
import struct
from dataclasses import replace

import pytest
import torch

from core.errors import BadWeights, ConfigurationError, OutOfMemory
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl, tiny_model
from tests.stock import engine_images
from worker.families import RUNNERS
from worker.families.load import load
from worker.process.model_loads import ModelLoads

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

WEIGHTS = "diffusion_pytorch_model.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_sdxl(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "tiny")


def reason(folder, model=None, dtype="float32"):
    with pytest.raises(BadWeights) as caught:
        load(folder, model or tiny_model(), device="cpu", dtype=dtype)
    return str(caught.value)


def edit_json(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_whole_folder_loads(folder):
    assert load(folder, tiny_model(), device="cpu", dtype="float32").model.name == "tiny"


def test_an_unknown_family_is_named_with_the_known_ones(folder):
    text = reason(folder, tiny_model(family="pixart"))
    assert "'pixart'" in text and all(name in text for name in RUNNERS)


def test_a_folder_of_another_family_is_named(tmp_path):
    save_sd(tmp_path / "tiny")
    assert "model_index.json: a StableDiffusionPipeline" in reason(tmp_path / "tiny")


def test_no_folder_at_all_is_named(tmp_path):
    assert "nothing/model_index.json: missing" in reason(tmp_path / "nothing")


@pytest.mark.parametrize("file", ["model_index.json", "unet/config.json"])
def test_a_missing_file_is_named(folder, file):
    (folder / file).unlink()
    assert f"tiny/{file}: missing" in reason(folder)


def test_a_missing_tokenizer_is_named(folder):
    shutil.rmtree(folder / "tokenizer")
    assert "tiny/tokenizer: neither tokenizer.json nor vocab.json" in reason(folder)


def test_json_that_cannot_be_read_is_named(folder):
    (folder / "unet/config.json").write_text("{")
    assert "tiny/unet/config.json: not readable as JSON" in reason(folder)


def test_missing_weights_are_named(folder):
    (folder / "unet" / WEIGHTS).unlink()
    assert "tiny/unet: no safetensors file" in reason(folder)


def test_weights_that_are_only_pickled_are_refused(folder):
    (folder / "unet" / WEIGHTS).unlink()
    (folder / "unet/diffusion_pytorch_model.bin").write_bytes(b"\x80\x04.")
    text = reason(folder)
    assert "tiny/unet: only pickled weights (diffusion_pytorch_model.bin)" in text


def test_truncated_weights_are_named(folder):
    file = folder / "vae" / WEIGHTS
    file.write_bytes(file.read_bytes()[:-100])
    assert f"tiny/vae/{WEIGHTS}: truncated or not safetensors" in reason(folder)


def test_a_file_that_is_no_safetensors_at_all_is_named(folder):
    (folder / "text_encoder/model.safetensors").write_bytes(b"")
    assert "tiny/text_encoder/model.safetensors: truncated" in reason(folder)


def test_weights_of_the_wrong_shape_are_named(folder):
    edit_json(folder / "unet/config.json", block_out_channels=[32, 96])
    assert f"tiny/unet/{WEIGHTS}:" in reason(folder)


def test_text_weights_of_the_wrong_shape_are_named(folder):
    edit_json(folder / "text_encoder_2/config.json", intermediate_size=64)
    assert "tiny/text_encoder_2/model.safetensors:" in reason(folder)


@pytest.mark.parametrize("part", ["unet", "text_encoder"])
def test_weights_that_lack_a_tensor_are_named(folder, part):
    file = next((folder / part).glob("*.safetensors"))
    drop_tensor(file)
    assert f"tiny/{part}/{file.name}: missing keys" in reason(folder)


def drop_tensor(file):
    """Rewrite a safetensors file without its first tensor."""
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    names = sorted((n for n in header if n != "__metadata__"), key=lambda n: offsets(header, n))
    start, end = offsets(header, names[0])
    kept = {
        n: header[n] | {"data_offsets": [o - end for o in offsets(header, n)]} for n in names[1:]
    }
    text = json.dumps(kept).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + body[end - start :])


def offsets(header, name):
    return header[name]["data_offsets"]


def test_half_precision_files_are_found_by_their_variant(folder):
    for file in folder.glob("*/*.safetensors"):
        file.rename(file.with_name(file.name.replace(".safetensors", ".fp16.safetensors")))
    assert load(folder, tiny_model(), device="cpu", dtype="float32")


def test_a_missing_shard_is_named(folder):
    index = {"weight_map": {"conv_in.weight": "diffusion_pytorch_model-00002-of-00002.safetensors"}}
    (folder / "unet" / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
    assert "tiny/unet/diffusion_pytorch_model-00002-of-00002.safetensors: missing" in reason(folder)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_model_runs_in_half_precision(folder, dtype):
    runner = load(folder, tiny_model(), device="cpu", dtype=dtype)
    image = engine_images(runner, [(0, a_job(steps=2))])["j1"][0]
    assert image.shape == (32, 32, 3) and image.dtype == "uint8"


def test_loading_in_half_precision_does_not_change_the_default_dtype(folder, monkeypatch):
    import torch

    def refuse(dtype):
        assert dtype == torch.float32

    monkeypatch.setattr(torch, "set_default_dtype", refuse)
    load(folder, tiny_model(), device="cpu", dtype="float16")


@pytest.mark.parametrize(
    ("device", "dtype", "named"), [("cuda:99", "float32", "DEVICE"), ("cpu", "int3", "DTYPE")]
)
def test_a_device_or_precision_there_is_not_names_the_setting(folder, device, dtype, named):
    with pytest.raises(ConfigurationError, match=f"ATELIER_{named}"):
        load(folder, tiny_model(), device=device, dtype=dtype)


def test_a_model_that_does_not_fit_says_so(folder, monkeypatch):
    monkeypatch.setitem(RUNNERS, "full", lambda: FullRunner)
    with pytest.raises(OutOfMemory, match="tiny does not fit on cpu"):
        load(folder, tiny_model(family="full"), device="cpu", dtype="float32")


class FullRunner:
    """A family whose models never fit."""

    @classmethod
    def load(cls, folder, model, *, device, dtype, only_predicts=False):
        raise RuntimeError("CUDA out of memory. Tried to allocate 5 GiB")


def test_the_noop_family_needs_no_folder(tmp_path):
    runner = load(tmp_path / "none", tiny_model(family="noop"), device="cpu", dtype="float32")
    made = engine_images(runner, [(0, a_job(n=2, width=16, height=8))])
    assert [image.shape for image in made["j1"]] == [(8, 16, 3)] * 2


def test_a_copy_of_a_model_has_its_own_precision(whole):
    copy = replace(tiny_model(), name="tiny-bf16", dtype="bfloat16")
    runner = load(whole, copy, device="cpu", dtype="float32")
    assert runner.pipe.unet.dtype is torch.bfloat16
    assert load(whole, tiny_model(), device="cpu", dtype="float32").pipe.unet.dtype is torch.float32


@pytest.mark.parametrize(("threads", "is_free"), [(1, True), (2, False)])
def test_a_decoder_is_free_where_steps_take_one_core(folder, threads, is_free):
    runner = load(folder, tiny_model(), device="cpu", dtype="float32")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert runner.decodes_freely is is_free
        runner.device = torch.device("meta")
        assert not runner.decodes_freely, "a device computes"
    finally:
        torch.set_num_threads(before)


def test_a_load_that_fails_in_its_last_part_leaves_none_of_the_others(whole, folder):
    """Though nobody collects garbage."""
    load(whole, tiny_model(), device="cpu", dtype="float32")  # whatever a process does once
    edit_json(folder / "vae/config.json", latent_channels=8)
    left = []
    loads = ModelLoads(
        lambda model: load(folder, model, device="cpu", dtype="float32"),
        give_back=lambda: left.append(num_modules()),
    )
    gc.collect()
    gc.disable()
    try:
        before = num_modules()
        with pytest.raises(BadWeights, match="tiny/vae/"):
            loads.load(tiny_model())
    finally:
        gc.enable()
    assert left == [before]


def num_modules():
    return sum(issubclass(type(each), torch.nn.Module) for each in gc.get_objects())
