"""Stable Diffusion 1.x and 2.x: one text encoder, noise or velocity predicted."""

import torch
from torch import Tensor

from core.errors import EngineError
from core.job import JobRequest
from worker.families.diffusion_runner import DiffusionRunner
from worker.families.unet import UNET
from worker.pipeline.sample import Conditioning
from worker.text.clip import ClipReader
from worker.text.learned import known
from worker.text.weighted import TextEncoder


class SdRunner(DiffusionRunner):
    """A resident Stable Diffusion pipeline."""

    family = "sd"
    pipeline_class = "StableDiffusionPipeline"
    architecture = UNET

    def condition(self, request: JobRequest, is_guided: bool) -> Conditioning:
        text, negative = self.encode(request, is_guided)
        return Conditioning(text=torch.cat([negative, text]) if is_guided else text)

    def encode_prompt(self, request: JobRequest, is_guided: bool) -> tuple[Tensor, ...]:
        """Encode as stock does; where layers are skipped, as stock means to.

        It looks for the last norm where transformers has none since version 5, and fails.
        """
        text, *negative = super().encode_prompt(request, is_guided)
        if request.clip_skip is not None and not self.reads_itself(request):
            tokens = self.pipe.tokenizer(
                request.prompt,
                padding="max_length",
                max_length=self.pipe.tokenizer.model_max_length,
                truncation=True,
                return_tensors="pt",
            ).input_ids
            [encoder] = self.text_encoders()
            text = encoder.reader.read(tokens, request.clip_skip)[0].to(text)
        return text, *negative

    def text_encoders(self) -> list[TextEncoder]:
        reader = ClipReader(encoder=self.pipe.text_encoder, is_last=True)
        return [TextEncoder(vocabulary=known(self.pipe.tokenizer), reader=reader)]

    def decode_latents(self, latents: Tensor) -> Tensor:
        vae = self.pipe.vae
        decoded: Tensor = vae.decode(latents / vae.config.scaling_factor, return_dict=False)[0]
        return self._refuse_unsafe(decoded)

    def _refuse_unsafe(self, decoded: Tensor) -> Tensor:
        """Ask the safety checker, if the folder brings one."""
        checked, flags = self.pipe.run_safety_checker(decoded, self.device, self.dtype)
        if flags is not None and any(flags):
            raise EngineError("the model's safety checker withholds this image")
        image: Tensor = checked
        return image
