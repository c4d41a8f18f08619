"""Begin images from images: a picture is encoded, and noised as far as the strength says.

As stock img2img pipelines begin, in their order of draws. At strength 1 too something is left of
the picture, as the first noise level of a schedule is finite; an edit starts from noise there.
"""

from typing import Protocol

import torch
from PIL import Image
from torch import Tensor

from core.errors import EngineError
from worker.diffusion.runner import InitInputs
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.stock import Pipe


class BeginFrom(Protocol):
    """Has a stock img2img pipeline encode a picture and noise it."""

    def __call__(
        self, stock: Pipe, image: Tensor, time: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Give latents to start from.

        Shapes: image [1, 3, H, W] in [-1, 1], time [1] -> [1, C, h, w].
        """
        ...


def latents_of(
    stock: Pipe,
    inputs: InitInputs,
    sampler: Sampler,
    generator: torch.Generator,
    begin: BeginFrom,
) -> Tensor:
    """Draw what a stock img2img pipeline draws; move the sampler to its begin.

    Shapes: [1, C, h, w].
    Raises: EngineError if the strength leaves no step.
    """
    stock.scheduler = sampler.scheduler
    if sampler.begin(stock, inputs.strength) < 1:
        raise EngineError(f"strength {inputs.strength:g} leaves none of the steps: raise either")
    height, width = inputs.image.shape[:2]
    picture = Image.fromarray(inputs.image)
    image = stock.image_processor.preprocess(picture, height=height, width=width).float()
    time = sampler.timesteps[sampler.position][None]
    return begin(stock, image, time, generator)


def begin_from(stock: Pipe, image: Tensor, time: Tensor, generator: torch.Generator) -> Tensor:
    """Begin where the latents of a pipeline are plain ones."""
    latents: Tensor = stock.prepare_latents(
        image, time, 1, 1, stock.dtype, stock.vae.device, generator=generator
    )
    return latents
