"""Masked edits: blend the noised template back in outside the mask after each step.

A model that was not trained to inpaint starts from noise and is shown, after each step, the
template at the noise level reached, wherever the mask says keep.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from core.errors import EngineError
from worker.diffusion.runner import EditInputs
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.stock import Pipe


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Canvas:
    """The template of one edit, on the device."""

    template: Tensor  #: scaled latent, [1, C, h, w]
    noise: Tensor  #: that the edit starts from, [1, C, h, w]
    mask: Tensor  #: 1 is made anew, 0 is kept, [1, 1, h, w]
    is_blank: bool  #: whether nothing is made anew; known to the host

    def blend(self, latents: Tensor, sampler: Sampler, position: int) -> Tensor:
        """Put the template back where it is kept, at the noise level before a call of the model.

        Shapes: [1, C, h, w].
        """
        return (1 - self.mask) * self.kept(sampler, position) + self.mask * latents

    def kept(self, sampler: Sampler, position: int) -> Tensor:
        """Give the template at the noise level before a call of the model.

        Shapes: [1, C, h, w].
        """
        return sampler.add_noise(self.template, self.noise, position)


class BeginEdit(Protocol):
    """Has a stock inpaint pipeline encode a template and noise it."""

    def __call__(
        self, stock: Pipe, image: Tensor, time: Tensor, strength: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give latents to start from, their noise, and the template's latents.

        Shapes: image [1, 3, H, W] in [-1, 1], time [1] -> [1, C, h, w] each.
        """
        ...


def open_canvas(
    stock: Pipe,
    inputs: EditInputs,
    sampler: Sampler,
    generator: torch.Generator,
    begin: BeginEdit,
) -> tuple[Tensor, Canvas]:
    """Draw what a stock inpaint pipeline draws, in its order; move the sampler to its begin.

    Also gives the latents to start from.
    Shapes: [1, C, h, w].
    Raises: EngineError if the strength leaves no step.
    """
    stock.scheduler = sampler.scheduler
    if sampler.begin(stock, inputs.strength) < 1:
        raise EngineError(f"strength {inputs.strength:g} leaves none of the steps: raise either")
    height, width = inputs.mask.shape
    size = {"height": height, "width": width}
    image = stock.image_processor.preprocess(Image.fromarray(inputs.template), **size).float()
    mask = stock.mask_processor.preprocess(Image.fromarray(inputs.mask), **size)
    time = sampler.timesteps[sampler.position][None]
    latents, noise, template = begin(stock, image, time, inputs.strength, generator)
    # These models do not see the masked image, but the stock pipeline encodes it.
    torch.randn(template.shape, generator=generator, dtype=template.dtype)
    cells = masked_cells(mask, stock.vae_scale_factor)
    canvas = Canvas(
        template=template,
        noise=noise,
        mask=cells.to(template.device, template.dtype),
        is_blank=not cells.any(),
    )
    return latents, canvas


def masked_cells(mask: Tensor, factor: int) -> Tensor:
    """Say which cells of a latent are made anew: those of stock pipelines, and what they miss.

    Stock looks at one pixel of each cell, where a stroke thinner than a cell may not be. So cells
    that it touches are made anew too, unless one beside them is. With a brush as wide as a cell
    nothing is missed.
    Shapes: [1, 1, H, W], 1 is made anew -> [1, 1, h, w].
    """
    height, width = mask.shape[2:]
    seen = functional.interpolate(mask, size=(height // factor, width // factor))
    touched = functional.max_pool2d(mask, factor)
    is_near = functional.max_pool2d(seen, 3, stride=1, padding=1) > 0
    return torch.where(is_near, seen, touched)


def begin_latents(
    stock: Pipe, image: Tensor, time: Tensor, strength: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Begin where the latents of a pipeline are plain ones."""
    begun: tuple[Tensor, Tensor, Tensor] = stock.prepare_latents(
        1,
        stock.vae.config.latent_channels,
        *image.shape[2:],
        dtype=stock.dtype,
        device=stock.vae.device,
        generator=generator,
        image=image,
        timestep=time,
        is_strength_max=strength == 1.0,
        return_noise=True,
        return_image_latents=True,
    )
    return begun
