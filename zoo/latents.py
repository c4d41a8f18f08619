"""Encode training scenes to latents, cached on disk."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import CLIPTokenizer

from zoo.architecture import MAX_TOKENS
from zoo.scenes import LEVELS, draw, training_scene

#: Scenes in one file.
SHARD = 1024

_ENCODE_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The encoded training scenes of one level."""

    #: Scaled latents, half precision, [N, 4, H, W].
    latents: Tensor
    #: Token ids of the captions, [N, T].
    ids: Tensor
    #: The noise that belongs to each latent, [N, 4, H, W]; None is any noise.
    noise: Tensor | None = None


def pixels(pictures: list[np.ndarray]) -> Tensor:
    """Turn pictures into the tensor that the autoencoder reads.

    Shapes: n of [H, W, 3] -> [n, 3, H, W].
    Units: 0..255 -> -1..1.
    """
    stacked: Tensor = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
    return stacked.float() / 127.5 - 1


@torch.no_grad()
def _encode(vae: AutoencoderKL, level: int, seed: int, indices: range, scale: int) -> Tensor:
    images = pixels([draw(training_scene(level, seed, index), scale) for index in indices])
    with torch.autocast("cpu", torch.bfloat16):
        mean: Tensor = vae.encode(images).latent_dist.mean
    unit: float = vae.config.scaling_factor
    return (mean.float() * unit).half()


def _shard(
    vae: AutoencoderKL,
    tokenizer: CLIPTokenizer,
    level: int,
    seed: int,
    indices: range,
    scale: int,
) -> dict[str, Tensor]:
    batch = max(1, _ENCODE_BATCH // scale**2)
    pieces = [indices[at : at + batch] for at in range(0, len(indices), batch)]
    captions = [training_scene(level, seed, index).caption for index in indices]
    ids = tokenizer(
        captions, padding="max_length", max_length=MAX_TOKENS, truncation=True, return_tensors="pt"
    ).input_ids
    latents = torch.cat([_encode(vae, level, seed, piece, scale) for piece in pieces])
    return {"latents": latents.contiguous(), "ids": ids.to(torch.int16)}


def _ranges(size: int) -> list[range]:
    return [range(start, min(start + SHARD, size)) for start in range(0, size, SHARD)]


def _path(folder: Path, level: int, indices: range) -> Path:
    return folder / f"level{level}-{indices.start:06d}-{indices.stop:06d}.safetensors"


def pool_folder(root: Path, vae: Path, scale: int = 1) -> Path:
    """Name the folder of an autoencoder's latents: models that share it share them."""
    digest = hashlib.sha256(next(vae.glob("*.safetensors")).read_bytes()).hexdigest()
    scaled = "" if scale == 1 else f"-x{scale}"
    return root / f"latents-{digest[:12]}{scaled}"


def write_pools(
    folder: Path,
    vae: AutoencoderKL,
    tokenizer: CLIPTokenizer,
    sizes: Mapping[int, int],
    seed: int,
    scale: int = 1,
) -> Iterator[int]:
    """Encode what the folder still lacks, and yield the scenes done after each file.

    Units: `scale` in sides of 64 pixels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for level in LEVELS:
        for indices in _ranges(sizes[level]):
            path = _path(folder, level, indices)
            if not path.exists():
                partial = path.with_suffix(".partial")
                save_file(_shard(vae, tokenizer, level, seed, indices, scale), partial)
                partial.rename(path)
            yield len(indices)


def read_pools(folder: Path, sizes: Mapping[int, int]) -> dict[int, Pool]:
    """Read the pools of all levels into memory."""
    return {level: _read_pool(folder, level, sizes[level]) for level in LEVELS}


def _read_pool(folder: Path, level: int, size: int) -> Pool:
    shards = [load_file(_path(folder, level, indices)) for indices in _ranges(size)]
    return Pool(
        latents=torch.cat([shard["latents"] for shard in shards]),
        ids=torch.cat([shard["ids"] for shard in shards]),
    )
