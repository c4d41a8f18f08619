import json
from pathlib import Path
from typing import Any

import pytest

from catalog.description.folder import describe
from catalog.models import read_found, read_models, survey
from core.errors import ModelRefused
from core.model import Model
from tests.unit.catalog.description.stock_folders import (
    EULER,
    FLOW,
    FLUX,
    SD3,
    UNETS,
    VAE,
    write_folder,
    write_json,
    write_weights,
)

FAMILIES = [
    ("StableDiffusionPipeline", UNETS["sd15"], VAE, EULER, ("sd", 512, 256, 1024, 64, 30, 7.5)),
    ("StableDiffusionXLPipeline", UNETS["sdxl"], VAE, EULER, ("sdxl", 1024, 512, 2048, 32, 30, 5)),
    (
        "StableDiffusion3Pipeline",
        SD3,
        VAE | {"latent_channels": 16},
        FLOW,
        ("sd3", 1024, 512, 2048, 16, 28, 7.0),
    ),
    (
        "FluxPipeline",
        FLUX,
        VAE | {"latent_channels": 16},
        FLOW,
        ("flux", 1024, 512, 2048, 16, 28, 3.5),
    ),
]


def facts(model: Model) -> tuple[object, ...]:
    sizes = (model.default_size, model.min_size, model.max_size, model.size_multiple)
    return (model.family, *sizes, model.default_steps, model.default_guidance)


@pytest.mark.parametrize(("class_name", "denoiser", "vae", "scheduler", "expected"), FAMILIES)
def test_a_stock_folder_says_what_it_makes(
    tmp_path: Path, class_name: str, denoiser: dict, vae: dict, scheduler: dict, expected: tuple
) -> None:
    folder = write_folder(tmp_path / "mine", class_name, denoiser, vae, scheduler)
    found = describe(folder)
    assert facts(found.model) == expected
    assert (found.model.name, found.model.max_prompt_tokens) == ("mine", 75)
    assert (found.parameters, found.dtypes, found.files) == (3 * 2**20, ("F16",), 3)
    assert found.model.size_gib == pytest.approx(3 * 2 / 1024, abs=1e-4)
    assert found.model.quality is None
    assert found.distilled is None


@pytest.mark.parametrize(
    ("name", "class_name", "denoiser", "scheduler", "expected"),
    [
        ("sdxl-turbo", "StableDiffusionXLPipeline", UNETS["sdxl"], EULER, ("turbo", 4, 0.0, 100)),
        (
            "mine",
            "StableDiffusionXLPipeline",
            UNETS["sdxl"],
            {"_class_name": "EulerAncestralDiscreteScheduler", "timestep_spacing": "trailing"},
            ("turbo", 4, 0.0, 100),
        ),
        (
            "SDXL-Lightning-8step",
            "StableDiffusionXLPipeline",
            UNETS["sdxl"],
            EULER | {"timestep_spacing": "trailing"},
            ("lightning", 8, 0.0, 100),
        ),
        (
            "mine",
            "StableDiffusionPipeline",
            UNETS["sd15"],
            {"_class_name": "LCMScheduler"},
            ("lcm", 4, 1.0, 50),
        ),
        (
            "mine-64steps",
            "StableDiffusionXLPipeline",
            UNETS["sdxl"],
            {"_class_name": "TCDScheduler"},
            ("hyper", 50, 0.0, 50),
        ),
        (
            "mine",
            "StableDiffusionXLPipeline",
            UNETS["sdxl"],
            {"_class_name": "TCDScheduler", "original_inference_steps": 6},
            ("hyper", 6, 0.0, 6),
        ),
        (
            "mine",
            "StableDiffusionXLPipeline",
            UNETS["sdxl"],
            {"_class_name": "TCDScheduler", "original_inference_steps": "many"},
            ("hyper", 8, 0.0, 50),
        ),
        (
            "dreamshaper",
            "StableDiffusionPipeline",
            UNETS["sd15"] | {"time_cond_proj_dim": 256},
            EULER,
            ("lcm", 4, 8.5, 50),
        ),
        ("mine", "FluxPipeline", FLUX | {"guidance_embeds": False}, FLOW, ("schnell", 4, 0.0, 100)),
        ("sd3.5-large-turbo", "StableDiffusion3Pipeline", SD3, FLOW, ("turbo", 4, 0.0, 100)),
        (
            "zero-snr",
            "StableDiffusionPipeline",
            UNETS["sd15"],
            EULER | {"timestep_spacing": "trailing", "rescale_betas_zero_snr": True},
            (None, 30, 7.5, 100),
        ),
        ("turbocharged", "StableDiffusionPipeline", UNETS["sd15"], EULER, (None, 30, 7.5, 100)),
    ],
)
def test_a_model_of_few_steps_is_recognised(
    tmp_path: Path,
    name: str,
    class_name: str,
    denoiser: dict,
    scheduler: dict,
    expected: tuple,
) -> None:
    channels = 4 if "3" not in class_name and "Flux" not in class_name else 16
    vae = VAE | {"latent_channels": channels}
    found = describe(write_folder(tmp_path / name, class_name, denoiser, vae, scheduler))
    model = found.model
    habit = (model.default_steps, model.default_guidance, model.max_steps)
    assert (found.distilled, *habit) == expected


@pytest.mark.parametrize(
    ("class_name", "unet", "scheduler", "reasons"),
    [
        ("KolorsPipeline", {}, EULER, ("KolorsPipeline", "served are StableDiffusionPipeline")),
        (
            "LatentConsistencyModelPipeline",
            {},
            EULER,
            ("StableDiffusionPipeline.from_pretrained(FOLDER).save_pretrained(NEW)",),
        ),
        ("StableDiffusionXLImg2ImgPipeline", {}, EULER, ("a refiner", "another model")),
        ("StableDiffusionPipeline", {"in_channels": 9}, EULER, ("9 input channels", "edit")),
        ("StableDiffusionPipeline", {"in_channels": 8}, EULER, ("editor by instructions",)),
        (
            "StableDiffusionPipeline",
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            EULER,
            ("bitsandbytes", "dequantize()"),
        ),
        (
            "StableDiffusionPipeline",
            {},
            {"_class_name": "EDMEulerScheduler"},
            ("EDMEulerScheduler", "trained for 1000 steps"),
        ),
        (
            "StableDiffusionPipeline",
            {},
            {"_class_name": "DPMSolverSDEScheduler"},
            ("torchsde", "scheduler_config.json"),
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_cure(
    tmp_path: Path, class_name: str, unet: dict, scheduler: dict, reasons: tuple
) -> None:
    folder = write_folder(tmp_path / "mine", class_name, UNETS["sd15"] | unet, scheduler=scheduler)
    with pytest.raises(ModelRefused) as refused:
        describe(folder)
    assert all(reason in str(refused.value) for reason in reasons), str(refused.value)


def test_pickled_weights_are_refused_with_what_converts_them(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ModelRefused, match=r"use_safetensors=False\)\.save_pretrained"):
        describe(folder)


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ModelRefused, match=r"diffusion_pytorch_model\.safetensors"):
        describe(folder)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"config.json": {"_class_name": "UNet2DConditionModel"}}, "one part of a pipeline"),
        ({}, "no folder of diffusers' layout"),
    ],
)
def test_a_folder_without_an_index_is_told_for_what_it_is(
    tmp_path: Path, made: dict, reason: str
) -> None:
    (tmp_path / "mine").mkdir()
    for name, value in made.items():
        write_json(tmp_path / "mine" / name, value)
    with pytest.raises(ModelRefused, match=reason):
        describe(tmp_path / "mine")


def test_variants_and_shards_are_counted_once(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine")
    unet = folder / "unet"
    for name in ("fp16", "non_ema"):
        write_weights(unet / f"diffusion_pytorch_model.{name}.safetensors")
    assert describe(folder).parameters == 3 * 2**20

    (unet / "diffusion_pytorch_model.safetensors").unlink()
    assert describe(folder).variant == "fp16"

    (unet / "diffusion_pytorch_model.fp16.safetensors").unlink()
    for number in (1, 2):
        shard = f"diffusion_pytorch_model.bf16-0000{number}-of-00002.safetensors"
        write_weights(unet / shard)
    index = {"weight_map": {"a": shard, "b": shard.replace("00002-of", "00001-of")}}
    write_json(unet / "diffusion_pytorch_model.safetensors.index.bf16.json", index)
    found = describe(folder)
    assert (found.variant, found.files, found.parameters) == ("bf16", 4, 4 * 2**20)

    (unet / shard).unlink()
    with pytest.raises(ModelRefused, match=r"00002-of-00002\.safetensors: missing"):
        describe(folder)


def test_its_own_file_says_otherwise_what_is_derived(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine")
    (folder / "atelier.json").write_text(json.dumps({"default_steps": 12, "quality": 0.9}))
    found = read_found(folder)
    assert (found.model.default_steps, found.model.quality) == (12, 0.9)
    assert (found.model.name, found.model.default_size) == ("mine", 512)
    assert found.description is not None
    assert found.description.model == found.model


def test_a_link_gives_a_model_its_name(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "users" / "model")
    (folder / "atelier.json").write_text(json.dumps({"name": "other", "family": "sd"}))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine").symlink_to(folder)
    assert list(read_models(tmp_path / "models")) == ["mine"]


def test_a_name_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="--name"):
        describe(write_folder(tmp_path / "a model"))


@pytest.mark.parametrize(
    ("part", "config"),
    [
        ("unet", {"pos_embed_max_size": "many"}),
        ("unet", {"down_block_types": 7, "in_channels": "four"}),
        ("vae", {"block_out_channels": "all"}),
        ("unet", []),
        ("scheduler", "text"),
    ],
)
def test_whatever_is_in_a_folder_it_ends_no_service(tmp_path: Path, part: str, config: Any) -> None:
    write_folder(tmp_path / "good")
    folder = write_folder(tmp_path / "odd")
    name = "scheduler_config.json" if part == "scheduler" else "config.json"
    write_json(folder / part / name, config)
    found = survey(tmp_path)
    assert "good" in found.models
    assert ("odd" in found.models) != ("odd" in found.refused)
    assert set(read_models(tmp_path)) == set(found.models)
