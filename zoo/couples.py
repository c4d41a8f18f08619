"""Noise-latent pairs from a teacher, to train a model of few steps (rectified flow).

A denoiser trained on noise and the latent that a teacher makes of that very noise meets each pair
on one straight way, and few steps suffice to walk it (rectified flow: Liu et al. 2023, section 2.2;
distilled text-to-image: InstaFlow, Liu et al. 2024).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers import DiffusionPipeline
from safetensors.torch import load_file, save_file
from torch import Tensor

from zoo.latents import Pool
from zoo.reading import tokenize
from zoo.scenes import LEVELS, training_scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupling:
    """How a teacher makes latents."""

    #: Its denoising steps.
    steps: int = 25
    #: Its guidance, which the pupil needs no longer.
    guidance: float = 4.0
    #: Decides scenes and noise.
    seed: int = 0
    #: Scenes in one file, made at once.
    shard: int = 64


def _path(folder: Path, level: int, start: int) -> Path:
    return folder / f"level{level}-{start:06d}.safetensors"


@torch.no_grad()
def _couple(
    teacher: DiffusionPipeline, level: int, start: int, coupling: Coupling
) -> dict[str, Tensor]:
    size = coupling.shard
    scenes = [training_scene(level, coupling.seed, start + at) for at in range(size)]
    side = teacher.unet.config.sample_size
    generator = torch.Generator().manual_seed(coupling.seed * 1_000_003 + level * 100_003 + start)
    noise = torch.randn(size, teacher.unet.config.in_channels, side, side, generator=generator)
    with torch.autocast("cpu", torch.bfloat16):
        latents = teacher(
            [scene.caption for scene in scenes],
            num_inference_steps=coupling.steps,
            guidance_scale=coupling.guidance,
            latents=noise,
            output_type="latent",
        ).images
    ids = tokenize(teacher.tokenizer, scenes).to(torch.int16)
    return {"latents": latents.half().contiguous(), "noise": noise.half(), "ids": ids}


def write_couples(
    folder: Path, teacher: DiffusionPipeline, sizes: Mapping[int, int], coupling: Coupling
) -> Iterator[int]:
    """Make what the folder still lacks, and yield the scenes done after each file."""
    folder.mkdir(parents=True, exist_ok=True)
    teacher.set_progress_bar_config(disable=True)
    for level in LEVELS:
        for start in range(0, sizes[level], coupling.shard):
            path = _path(folder, level, start)
            if not path.exists():
                partial = path.with_suffix(".partial")
                save_file(_couple(teacher, level, start, coupling), partial)
                partial.rename(path)
            yield coupling.shard


def read_couples(folder: Path, sizes: Mapping[int, int], coupling: Coupling) -> dict[int, Pool]:
    """Read the couples of all levels into memory."""
    return {level: _read(folder, level, range(0, sizes[level], coupling.shard)) for level in LEVELS}


def _read(folder: Path, level: int, starts: range) -> Pool:
    shards = [load_file(_path(folder, level, start)) for start in starts]
    return Pool(
        latents=torch.cat([shard["latents"] for shard in shards]),
        ids=torch.cat([shard["ids"] for shard in shards]),
        noise=torch.cat([shard["noise"] for shard in shards]),
    )
