"""Stable Diffusion XL: two text encoders, pooled text and sizes beside the timestep."""

import torch
from torch import Tensor

from core.job import JobRequest, Pair
from core.model import Model
from worker.diffusion.device import to_device
from worker.diffusion.edit import Canvas
from worker.diffusion.runner import EditInputs, InitInputs
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.stock import Pipe
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.unet import UNET
from worker.pipeline.sample import Conditioning
from worker.text.clip import ClipReader
from worker.text.learned import known
from worker.text.weighted import TextEncoder

#: Original size, crop and target size, as stock takes them.
Sizes = tuple[Pair, Pair, Pair]


class SdxlRunner(DiffusionRunner):
    """A resident SDXL pipeline."""

    family = "sdxl"
    pipeline_class = "StableDiffusionXLPipeline"
    architecture = UNET
    encoding_parts = ("text", "pooled")
    encoded_fields = ("prompt_2", "negative_prompt_2", "clip_skip")

    def __init__(
        self, model: Model, pipe: Pipe, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__(model, pipe, device=device, dtype=dtype)
        if dtype == torch.float16 and pipe.vae is not None and pipe.vae.config.force_upcast:
            # Stock casts this decoder up for every image, as it overflows in float16.
            pipe.vae.to(dtype=torch.float32)

    def condition(self, request: JobRequest, is_guided: bool) -> Conditioning:
        text, negative, pooled, negative_pooled = self.encode(request, is_guided)
        told, told_negative = sizes_of(request)
        sizes = self._embed_sizes(told, text.dtype, pooled)
        if is_guided:
            text, pooled = torch.cat([negative, text]), torch.cat([negative_pooled, pooled])
            sizes = torch.cat([self._embed_sizes(told_negative, text.dtype, pooled), sizes])
        return Conditioning(text=text, added={"text_embeds": pooled, "time_ids": sizes})

    def text_encoders(self) -> list[TextEncoder]:
        pipe = self.pipe
        parts = ((pipe.tokenizer, pipe.text_encoder), (pipe.tokenizer_2, pipe.text_encoder_2))
        return [
            TextEncoder(
                vocabulary=known(tokenizer), reader=ClipReader(encoder=encoder, is_last=False)
            )
            for tokenizer, encoder in parts
            if encoder is not None
        ]

    def _embed_sizes(self, sizes: Sizes, dtype: torch.dtype, pooled: Tensor) -> Tensor:
        encoder = self.pipe.text_encoder_2
        width_of_text = pooled.shape[-1] if encoder is None else encoder.config.projection_dim
        ids: Tensor = self.pipe._get_add_time_ids(
            *sizes,
            dtype=dtype,
            text_encoder_projection_dim=int(width_of_text),
        )
        return to_device(ids, self.device)

    def open_canvas(
        self, inputs: EditInputs, sampler: Sampler, generator: torch.Generator
    ) -> tuple[Tensor, Canvas]:
        precision = self.pipe.vae.dtype
        opened = super().open_canvas(inputs, sampler, generator)
        self.pipe.vae.to(dtype=precision)  # stock casts it down again after encoding
        return opened

    def latents_of(
        self, inputs: InitInputs, sampler: Sampler, generator: torch.Generator
    ) -> Tensor:
        precision = self.pipe.vae.dtype
        latents = super().latents_of(inputs, sampler, generator)
        self.pipe.vae.to(dtype=precision)  # as above
        return latents

    def decode_latents(self, latents: Tensor) -> Tensor:
        vae = self.pipe.vae
        latents = latents.to(vae.dtype)
        mean, std = (getattr(vae.config, name, None) for name in ("latents_mean", "latents_std"))
        if mean is not None and std is not None:
            latents = latents * _per_channel(std, latents) / vae.config.scaling_factor
            latents = latents + _per_channel(mean, latents)
        else:
            latents = latents / vae.config.scaling_factor
        decoded: Tensor = vae.decode(latents, return_dict=False)[0]
        return decoded


def sizes_of(request: JobRequest) -> tuple[Sizes, Sizes]:
    """Say what the model is told of sizes beside the prompt, and beside the negative one."""
    own = (request.height, request.width)
    told = (request.original_size or own, request.crop or (0, 0), request.target_size or own)
    original, target = request.negative_original_size, request.negative_target_size
    if original is None or target is None:
        return told, told
    return told, (original, request.negative_crop or (0, 0), target)


def _per_channel(values: list[float], like: Tensor) -> Tensor:
    return torch.tensor(values).view(1, -1, 1, 1).to(like.device, like.dtype)
