"""Paint small pictures of images on their way, from their latents by a matrix.

The matrix is fitted once for each loaded model: to what its own encoder makes of coloured squares.
What the engine's thread does is to copy latents; pictures are painted by another.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from worker.diffusion.runner import Pixels
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.stock import Module

#: Of a picture, at most, in pixels.
SIDE = 128
#: The encoder is shown so many coloured squares a side, of so many cells each.
SQUARES, SQUARE = 8, 2
SEED = 20
#: Steps that change the noise by less say nothing of the image.
LEAST_CHANGE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Glance:
    """Latents after some step: so much of the image, and so much noise."""

    latents: Tensor  #: [1, C, h, w], a copy
    signal: float
    noise: float
    position: int  #: calls of the model before it

    @classmethod
    def at(cls, latents: Tensor, sampler: Sampler) -> "Glance":
        """Copy latents as they are now; nothing waits for the device."""
        one, none = torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1)
        at = sampler.position
        signal, noise = sampler.add_noise(one, none, at), sampler.add_noise(none, one, at)
        return cls(latents=latents.clone(), signal=float(signal), noise=float(noise), position=at)

    def image_after(self, earlier: "Glance", *, is_straight: bool) -> Tensor:
        """Guess the image's own latents, on the host, from those of two steps.

        A sampler that draws no noise goes along a line of image and noise, which two steps show;
        others show the image as noisy as it is.
        Shapes: [1, C, h, w].
        """
        now, before = self.latents.float().cpu(), earlier.latents.float().cpu()
        change = self.signal * earlier.noise - earlier.signal * self.noise
        if not is_straight or abs(change) < LEAST_CHANGE:
            return now / math.hypot(self.signal, self.noise)
        guess: Tensor = (earlier.noise * now - self.noise * before) / change
        return guess


@torch.inference_mode()
def fit(encode: Callable[[Tensor], Tensor], factor: int) -> Tensor:
    """Fit the matrix that gives the colours of latents, by least squares over coloured squares.

    `factor`: pixels a side of a cell of latents.
    Shapes: encode [1, 3, H, W] in [-1, 1] -> [1, C, h, w], on any device; the matrix [C + 1, 3],
    its last row the colours of no latents.
    """
    generator = torch.Generator().manual_seed(SEED)
    squares = 2 * torch.rand(1, 3, SQUARES, SQUARES, generator=generator) - 1
    picture = functional.interpolate(squares, scale_factor=float(SQUARE * factor))
    latents = encode(picture)[0].float().cpu()
    height, width = latents.shape[1:]
    seen = functional.adaptive_avg_pool2d(picture, (height, width))[0].flatten(1).T
    matrix: Tensor = torch.linalg.lstsq(_with_one(latents), seen).solution
    return matrix


def encode(vae: Module, picture: Tensor) -> Tensor:
    """Encode a picture, scaled as the latents of its model are.

    Shapes: [1, 3, H, W] in [-1, 1] -> [1, C, h, w].
    """
    parameter, config = next(vae.parameters()), vae.config
    made = vae.encode(picture.to(parameter.device, parameter.dtype))
    latents: Tensor = made.latent_dist.mode() if hasattr(made, "latent_dist") else made.latents
    mean, std = (getattr(config, name, None) for name in ("latents_mean", "latents_std"))
    if mean is not None and std is not None:
        latents = (latents - _per_channel(mean, latents)) / _per_channel(std, latents)
    else:
        latents = latents - (getattr(config, "shift_factor", None) or 0.0)
    return latents * float(config.scaling_factor)


def _per_channel(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values).view(1, -1, 1, 1).to(like)


def paint(latents: Tensor, matrix: Tensor, size: tuple[int, int]) -> Pixels:
    """Paint a small picture of an image of this size (width, height).

    Shapes: [1, C, h, w], matrix [C + 1, 3] -> [H, W, 3].
    """
    height, width = latents.shape[2:]
    colours = (_with_one(latents[0].float()) @ matrix).reshape(height, width, 3)
    pixels = ((colours.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).numpy()
    scale = min(1.0, SIDE / max(size))
    small = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    return np.asarray(Image.fromarray(pixels).resize(small, Image.Resampling.BICUBIC))


def _with_one(latents: Tensor) -> Tensor:
    """Shapes: [C, h, w] -> [h * w, C + 1]."""
    cells = latents.flatten(1).T
    return torch.cat([cells, cells.new_ones(len(cells), 1)], dim=1)
