"""Stock pipeline folders as `save_pretrained` leaves them, with headers of weights and no torch."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

#: What tells families apart in the folders that people have, as their configurations say it.
UNETS = {
    "sd15": {
        "sample_size": 64,
        "in_channels": 4,
        "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    },
    "sdxl": {
        "sample_size": 128,
        "in_channels": 4,
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    },
}
SD3 = {"sample_size": 128, "patch_size": 2, "in_channels": 16, "pos_embed_max_size": 192}
FLUX = {"in_channels": 64, "patch_size": 1, "guidance_embeds": True}
VAE = {"block_out_channels": [128, 256, 512, 512], "latent_channels": 4}
EULER = {"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "leading"}
FLOW = {"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0}


def write_folder(
    folder: Path,
    class_name: str = "StableDiffusionPipeline",
    denoiser: Mapping[str, object] = UNETS["sd15"],
    vae: Mapping[str, object] = VAE,
    scheduler: Mapping[str, object] = EULER,
    dtype: str = "float16",
    **index: object,
) -> Path:
    """Write a folder with one tensor of 2^20 numbers a part."""
    part = "unet" if class_name.startswith("StableDiffusion") and "3" not in class_name else ""
    part = part or "transformer"
    kinds = {"unet": "UNet2DConditionModel", "transformer": "SD3Transformer2DModel"}
    named = {
        "_class_name": class_name,
        part: ["diffusers", kinds[part]],
        "vae": ["diffusers", "AutoencoderKL"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "scheduler": ["diffusers", scheduler["_class_name"]],
        "safety_checker": [None, None],
        **index,
    }
    write_json(folder / "model_index.json", named)
    write_json(folder / "scheduler" / "scheduler_config.json", scheduler)
    write_json(folder / "tokenizer" / "tokenizer_config.json", {"model_max_length": 77})
    write_json(folder / "tokenizer" / "vocab.json", {"a</w>": 0, "<|endoftext|>": 1})
    (folder / "tokenizer" / "merges.txt").write_text("#version: 0.2\n")
    for name, config in ((part, denoiser), ("vae", vae), ("text_encoder", {})):
        write_json(folder / name / "config.json", config)
        write_weights(folder / name / "diffusion_pytorch_model.safetensors", dtype)
    return folder


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_weights(path: Path, dtype: str = "float16") -> None:
    save_file({f"{path.stem}.weight": np.zeros((1024, 1024), dtype)}, path)
