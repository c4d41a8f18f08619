"""Flux: transformer over packed latents, embedded guidance; CLIP and T5 encoders.

Latents are packed, 2x2 to a token, for the transformer alone: everywhere else they lie as those of
other families do, so that masks, samplers and edits need not know.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from core.job import JobRequest
from worker.control.client import steerable
from worker.diffusion.device import to_device
from worker.diffusion.stock import Config, Pipe
from worker.families.flow import FlowRunner
from worker.masking.blocks.flux import FLUX_CUTS
from worker.pipeline.architecture import Architecture
from worker.pipeline.packing import Packed
from worker.pipeline.sample import Conditioning


class FluxRunner(FlowRunner):
    """A resident Flux pipeline: `dev`, which reads the guidance scale, or `schnell`, without."""

    family = "flux"
    pipeline_class = "FluxPipeline"
    architecture = Architecture(
        part="transformer",
        compiled=frozenset(FLUX_CUTS),
        cuts=FLUX_CUTS,
        steerability=steerable.FLUX,
    )

    def is_guided(self, request: JobRequest) -> bool:
        """One row an image: guidance is an input, negative prompts are refused with the request."""
        del request
        return False

    def schedule(self, request: JobRequest) -> Mapping[str, object]:
        """Shift the noise levels by the number of tokens, as the stock pipeline does."""
        side = 2 * self.pipe.vae_scale_factor
        tokens = (request.height // side) * (request.width // side)
        return {
            "sigmas": request.sigmas or np.linspace(1.0, 1 / request.steps, request.steps),
            "mu": _shift(tokens, self.pipe.scheduler.config),
        }

    def encode_prompt(self, request: JobRequest, is_guided: bool) -> tuple[Tensor, ...]:
        del is_guided
        text, pooled, _ = self.pipe.encode_prompt(
            prompt=request.prompt, prompt_2=request.prompt_2, device=self.device
        )
        return text, pooled

    def condition(self, request: JobRequest, is_guided: bool) -> Conditioning:
        text, pooled = self.encode(request, is_guided)
        added = {"pooled_projections": pooled}
        if self.pipe.transformer.config.guidance_embeds:
            scale = torch.tensor([request.guidance], dtype=torch.float32)
            added["guidance"] = to_device(scale, self.device)
        return Conditioning(text=text, added=added)

    @staticmethod
    def begin_latents(
        stock: Pipe, image: Tensor, time: Tensor, strength: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Begin an edit. The strength is in the time already."""
        del strength
        height, width = image.shape[2:]
        latents, noise, template, _ = stock.prepare_latents(
            image,
            time,
            1,
            stock.vae.config.latent_channels,
            height,
            width,
            stock.dtype,
            stock.vae.device,
            generator,
        )
        rows = height // stock.vae_scale_factor
        return unpack(latents, rows), unpack(noise, rows), unpack(template, rows)

    @staticmethod
    def begin_from(stock: Pipe, image: Tensor, time: Tensor, generator: torch.Generator) -> Tensor:
        """Begin an image from an image."""
        height, width = image.shape[2:]
        channels = stock.vae.config.latent_channels
        latents, _ = stock.prepare_latents(
            image, time, 1, channels, height, width, stock.dtype, stock.vae.device, generator
        )
        return unpack(latents, height // stock.vae_scale_factor)

    def call(self, latents: Tensor, times: Tensor, packed: Packed) -> Tensor:
        ids = self._ids(*(side // 2 for side in latents.shape[2:]))
        predictions: Tensor = self.unet(
            pack(latents),
            encoder_hidden_states=packed.text,
            timestep=times.to(latents.dtype) / 1000,
            img_ids=ids,
            txt_ids=torch.zeros_like(ids[:1]).expand(packed.text.shape[1], -1),
            return_dict=False,
            **(packed.added or {}),
        )[0]
        return unpack(predictions, latents.shape[2])

    def _ids(self, height: int, width: int) -> Tensor:
        """Place each token, made on the device as stock makes it on the host. Shapes: [hw, 3]."""
        ids = torch.zeros(height, width, 3, device=self.device, dtype=self.dtype)
        ids[..., 1] += torch.arange(height, device=self.device)[:, None]
        ids[..., 2] += torch.arange(width, device=self.device)
        return ids.flatten(0, 1)


def _shift(tokens: int, config: Config) -> float:
    """Shift the schedule of a larger picture further: linear in its tokens."""
    few, many = config["base_image_seq_len"], config["max_image_seq_len"]
    slope = (config["max_shift"] - config["base_shift"]) / (many - few)
    shift: float = tokens * slope + (config["base_shift"] - slope * few)
    return shift


def pack(latents: Tensor) -> Tensor:
    """Shapes: [B, C, h, w] -> [B, hw / 4, 4C]"""
    batch, channels, height, width = latents.shape
    cells = latents.reshape(batch, channels, height // 2, 2, width // 2, 2)
    return cells.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def unpack(tokens: Tensor, height: int) -> Tensor:
    """Shapes: [B, hw / 4, 4C] -> [B, C, h, w], where `height` is h."""
    batch, _, channels = tokens.shape
    cells = tokens.reshape(batch, height // 2, -1, channels // 4, 2, 2)
    return cells.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
