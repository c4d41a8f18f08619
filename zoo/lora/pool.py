"""Training latents of a style LoRA: restyled scenes, encoded once."""

from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers import AutoencoderKL
from rich.progress import track
from safetensors.torch import load_file, save_file
from torch import Tensor

from zoo.latents import pixels
from zoo.lora.styles import Style
from zoo.scenes import LEVELS, Picture, Scene, draw, training_scene

_ENCODE_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledScenes:
    """Captions of plain scenes, and what they look like in a style."""

    #: Prompts; none names the style.
    captions: tuple[str, ...]
    #: Scaled latents, half precision, [N, 4, h, w].
    latents: Tensor


def scenes(count: int, seed: int) -> list[Scene]:
    """Compose training scenes, every level in turn."""
    levels = len(LEVELS)
    return [training_scene(LEVELS[at % levels], seed, at // levels) for at in range(count)]


def styled_scenes(
    vae: AutoencoderKL, style: Style, count: int, seed: int, cache: Path
) -> StyledScenes:
    """Encode scenes in a style, or read what an earlier call left in the cache."""
    plain = scenes(count, seed)
    if not cache.exists():
        pictures = [style.restyle(draw(scene)) for scene in plain]
        partial = cache.with_suffix(".partial")
        save_file({"latents": _encode(vae, pictures, style.name)}, partial)
        partial.rename(cache)
    captions = tuple(scene.caption for scene in plain)
    return StyledScenes(captions=captions, latents=load_file(cache)["latents"])


@torch.no_grad()
def _encode(vae: AutoencoderKL, pictures: list[Picture], name: str) -> Tensor:
    starts = range(0, len(pictures), _ENCODE_BATCH)
    pieces = []
    for start in track(starts, description=f"{name} latents", transient=True):
        with torch.autocast("cpu", torch.bfloat16):
            images = pixels(pictures[start : start + _ENCODE_BATCH])
            pieces.append(vae.encode(images).latent_dist.mean.float())
    latents: Tensor = torch.cat(pieces) * vae.config.scaling_factor
    return latents.half().contiguous()
