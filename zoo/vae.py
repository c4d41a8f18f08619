"""How is the autoencoder trained?"""

import math
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from diffusers import AutoencoderKL
from diffusers.models.attention_processor import AttnProcessor
from torch import Tensor, nn

from zoo.architecture import IMAGE_SIDE
from zoo.latents import pixels
from zoo.scenes import LEVELS, Scene, draw, held_out, training_scene
from zoo.schedule import share_of_peak

#: Training scenes of the autoencoder have indices below this, at every level.
_SCENES = 1_000_000
_STRIDE = 1_000_003

#: Posterior log-variance at the start: a variance of one would drown the latents.
_FIRST_LOG_VARIANCE = -5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeRecipe:
    """The settings of one autoencoder run; a resumed run may change `steps` alone."""

    #: Decides scenes, crops, noise and the initial weights.
    seed: int = 0
    #: Optimiser steps in all.
    steps: int = 4000
    #: The last steps, over which the learning rate falls linearly.
    decay_steps: int = 2400
    #: The first steps, over which it rises.
    warmup_steps: int = 40
    #: Peak learning rate.
    rate: float = 1e-3
    #: Crops per step.
    batch: int = 32
    #: Side of a crop: a quarter of the picture costs a quarter.
    crop: int = 32
    #: Share of the run after which whole pictures are used.
    whole_from: float = 0.85
    #: Whole pictures per step.
    whole_batch: int = 12
    #: Weight of the KL term; ten times as much makes the latents lose their colours.
    kl: float = 3e-4
    #: Whether the latents stay as they are and only the decoder learns.
    is_decoder_only: bool = False

    def rate_at(self, step: int) -> float:
        """Give the learning rate: warm-up, constant, linear decay."""
        return self.rate * share_of_peak(
            step,
            steps=self.steps,
            decay_steps=self.decay_steps,
            warmup_steps=self.warmup_steps,
        )


def quieten(vae: AutoencoderKL) -> None:
    """Start with a narrow posterior."""
    with torch.no_grad():
        log_variance = vae.config.latent_channels
        vae.quant_conv.bias[log_variance:] = _FIRST_LOG_VARIANCE
        vae.quant_conv.weight[log_variance:] *= 0.1


class VaeTraining:
    """One autoencoder run; each step is a pure function of the recipe and its number."""

    def __init__(self, vae: AutoencoderKL, recipe: VaeRecipe) -> None:
        self.vae = vae.train()
        self.step = 0
        self._recipe = recipe
        vae.set_attn_processor(AttnProcessor())
        if recipe.is_decoder_only:
            vae.encoder.requires_grad_(False)
            vae.quant_conv.requires_grad_(False)
        learning = [weight for weight in vae.parameters() if weight.requires_grad]
        self._optimizer = torch.optim.AdamW(
            learning, lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True
        )

    def advance(self) -> float:
        """Take one step and give its loss."""
        seed = self._recipe.seed * _STRIDE + self.step
        images = self._images(Random(f"autoencoder/{seed}"))
        for group in self._optimizer.param_groups:
            group["lr"] = self._recipe.rate_at(self.step)
        loss = self._loss(images, torch.Generator().manual_seed(seed))
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.vae.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        return loss.item()

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all."""
        partial = path.with_suffix(".partial")
        torch.save(self._state(), partial)
        partial.rename(path)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        state = torch.load(path, weights_only=True)
        self.vae.load_state_dict(state["vae"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]

    def _state(self) -> dict[str, Any]:
        optimizer = self._optimizer.state_dict()
        return {"step": self.step, "vae": self.vae.state_dict(), "optimizer": optimizer}

    def _images(self, rng: Random) -> Tensor:
        """Draw scenes, whole late in the run and cropped on the latent grid before.

        Shapes: [B, 3, H, W].
        """
        is_whole = self.step >= self._recipe.whole_from * self._recipe.steps
        size = self._recipe.whole_batch if is_whole else self._recipe.batch
        images = pixels([draw(self._scene(rng)) for _ in range(size)])
        side = IMAGE_SIDE if is_whole else self._recipe.crop
        top, left = (4 * rng.randint(0, (IMAGE_SIDE - side) // 4) for _ in range(2))
        return images[..., top : top + side, left : left + side]

    def _scene(self, rng: Random) -> Scene:
        return training_scene(rng.choice(LEVELS), self._recipe.seed, rng.randrange(_SCENES))

    def _loss(self, images: Tensor, generator: torch.Generator) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            posterior = self.vae.encode(images).latent_dist
            decoded = self.vae.decode(posterior.sample(generator)).sample
        mean, log_variance = posterior.mean.float(), posterior.logvar.float()
        spread: Tensor = mean**2 + log_variance.exp() - log_variance
        return _difference(decoded.float(), images) + self._recipe.kl * 0.5 * (spread - 1).mean()


def _difference(decoded: Tensor, images: Tensor) -> Tensor:
    """Add up absolute, squared and edge errors."""
    error = decoded - images
    edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
    return error.abs().mean() + (error**2).mean() + 0.25 * edges


@torch.no_grad()
def reconstruct(vae: AutoencoderKL, images: Tensor) -> Tensor:
    """Encode and decode without sampling.

    Shapes: [B, 3, H, W] -> the same.
    """
    decoded: Tensor = vae.decode(vae.encode(images).latent_dist.mean).sample
    return decoded.clamp(-1, 1)


def psnr(vae: AutoencoderKL, count: int = 16) -> float:
    """Measure the reconstruction on held-out scenes of all levels, in dB."""
    scenes = [scene for level in LEVELS for scene in held_out(level, count, seed=0)]
    images = pixels([draw(scene) for scene in scenes])
    error = ((reconstruct(vae, images) - images) / 2) ** 2
    return -10 * math.log10(error.mean().item())


@torch.no_grad()
def set_scale(vae: AutoencoderKL, count: int = 64) -> None:
    """Set the scaling factor so that scaled latents have unit variance."""
    scenes = [training_scene(level, 0, index) for level in LEVELS for index in range(count)]
    latents = vae.encode(pixels([draw(scene) for scene in scenes])).latent_dist.mean
    vae.register_to_config(scaling_factor=round(1 / latents.std().item(), 5))
