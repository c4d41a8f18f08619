"""A single file is recognised by the names and shapes in its header."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from catalog.description.single_file import recognise
from core.errors import ModelRefused

UNET = "model.diffusion_model."
FIRST = f"{UNET}input_blocks.0.0.weight"
CROSS = f"{UNET}input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight"
VAE = {"first_stage_model.encoder.conv_in.weight": (8, 3, 3, 3)}
SD = {FIRST: (8, 4, 3, 3), CROSS: (8, 768), "cond_stage_model.transformer.x": (1,), **VAE}
SD2 = {FIRST: (8, 4, 3, 3), CROSS: (8, 1024), "cond_stage_model.model.x": (1,), **VAE}
SDXL = {
    FIRST: (8, 4, 3, 3),
    CROSS: (8, 2048),
    "conditioner.embedders.0.transformer.x": (1,),
    "conditioner.embedders.1.model.x": (1,),
    **VAE,
}
SD3 = {f"{UNET}joint_blocks.0.context_block.adaLN_modulation.1.bias": (8,)}
FLUX = {
    "double_blocks.0.img_attn.norm.key_norm.scale": (8,),
    "img_in.weight": (8, 64),
    "final_layer.linear.weight": (64, 8),
}


def write(path: Path, shapes: dict, dtype: str = "float16", **metadata: object) -> Path:
    save_file({name: np.zeros(shape, dtype) for name, shape in shapes.items()}, path)
    return describe(path, metadata) if metadata else path


def describe(path: Path, metadata: dict) -> Path:
    """Write metadata into a file as anybody might: safetensors itself writes texts alone."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps({**json.loads(data[8:end]), "__metadata__": metadata}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[end:])
    return path


@pytest.mark.parametrize(
    ("shapes", "family", "kind", "lacks", "needs_base"),
    [
        (SD, "sd", "sd15", (), False),
        (SD2, "sd", "sd2", (), False),
        (SDXL, "sdxl", "sdxl", (), False),
        ({FIRST: (8, 4, 3, 3), CROSS: (8, 2048)}, "sdxl", "sdxl", None, True),
        (SD | {"model_ema.x": (1,)}, "sd", "sd15", (), False),
        (SD3, "sd3", "sd3", ("vae", "text_encoder", "text_encoder_2"), True),
        (FLUX, "flux", "flux", ("vae", "text_encoder", "text_encoder_2"), True),
        ({UNET + n: s for n, s in FLUX.items()}, "flux", "flux", None, True),
    ],
)
def test_a_checkpoint_is_recognised(tmp_path, shapes, family, kind, lacks, needs_base) -> None:
    found = recognise(write(tmp_path / "mine.safetensors", shapes))
    assert (found.family, found.kind, found.needs_base) == (family, kind, needs_base)
    assert lacks is None or found.lacks == lacks
    assert found.tensors.dtypes == ("F16",)


@pytest.mark.parametrize(
    ("name", "shapes", "velocity", "distilled"),
    [
        ("mine", SD, False, None),
        ("v2-1_768-ema-pruned", SD2, True, None),
        ("512-base-ema", SD2, False, None),
        ("noob-vpred", SDXL | {"v_pred": (1,), "ztsnr": (1,)}, True, None),
        ("sdxl_lightning_4step", SDXL, False, "lightning"),
    ],
)
def test_names_and_marks_say_what_weights_do_not(
    tmp_path, name, shapes, velocity, distilled
) -> None:
    found = recognise(write(tmp_path / f"{name}.safetensors", shapes))
    assert (found.predicts_velocity, found.distilled) == (velocity, distilled)
    assert found.is_zero_snr == ("ztsnr" in shapes)


@pytest.mark.parametrize(
    ("name", "shapes", "stated", "prediction", "velocity"),
    [
        ("mine", SDXL, "v", "v_prediction", True),
        ("mine", SDXL, " V\n", "v_prediction", True),
        ("v2-1_768-ema-pruned", SD2, "epsilon", "epsilon", False),
        ("512-base-ema", SD2, "v", "v_prediction", True),
        ("v2-1_768-ema-pruned", SD2, "whatever it is", None, True),
        ("mine", SDXL | {"v_pred": (1,)}, "epsilon", "v_prediction", True),
        ("mine", SDXL, ["v"], None, False),
        ("mine", FLUX, "v", None, False),
    ],
)
def test_what_a_file_states_of_its_prediction_counts_before_its_name(
    tmp_path, name, shapes, stated, prediction, velocity
) -> None:
    metadata = {"modelspec.prediction_type": stated, "modelspec.title": 7}
    found = recognise(write(tmp_path / f"{name}.safetensors", shapes, **metadata))
    assert (found.prediction, found.predicts_velocity) == (prediction, velocity)
    assert found.distilled is None


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (SD | {FIRST: (8, 9, 3, 3)}, "inpainting"),
        ({FIRST: (8, 4, 3, 3), "conditioner.embedders.0.model.x": (1,)}, "a refiner"),
        (SDXL | {"edm_mean": (1,)}, "EDM"),
        (FLUX | {"img_in.weight": (8, 384)}, "384 input channels"),
        ({"lora_unet_x.lora_down.weight": (1,)}, "atelier loras add"),
        ({"control_model.x": (1,)}, "atelier controlnets add"),
        ({"down_blocks.0.x": (1,)}, "the folder of the whole pipeline"),
        ({"decoder.conv_in.weight": (1,)}, "alone"),
        ({"anything": (1,)}, "SDXL, SD 3 or Flux"),
        (SD | {"x.absmax": (1,)}, "bitsandbytes"),
        (SD | {"x.scale_weight": (1,)}, "8-bit numbers with scales"),
    ],
)
def test_what_is_no_checkpoint_is_told_for_what_it_is(tmp_path, shapes, reason) -> None:
    with pytest.raises(ModelRefused, match=reason):
        recognise(write(tmp_path / "mine.safetensors", shapes))


@pytest.mark.parametrize(
    ("name", "reason"), [("mine.ckpt", "weights_only=True"), ("mine.gguf", "must be a .safetens")]
)
def test_other_formats_are_refused_with_the_cure(tmp_path, name, reason) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ModelRefused, match=reason):
        recognise(tmp_path / name)


def test_a_file_that_is_cut_short_is_refused(tmp_path) -> None:
    path = write(tmp_path / "mine.safetensors", SD)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ModelRefused, match="cut short: 10 bytes"):
        recognise(path)
    path.write_bytes(b"not a safetensors file")
    with pytest.raises(ModelRefused, match="no safetensors file"):
        recognise(path)
