"""Training loss of a LoRA, and its checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from diffusers import StableDiffusionXLPipeline
from torch import Tensor, nn

from zoo.denoiser import draw_times
from zoo.lora.pool import StyledScenes
from zoo.text import time_ids
from zoo.training import Recipe, Training


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraRecipe(Recipe):
    """The settings of one LoRA run; a resumed run may change `steps` alone."""

    #: The first steps, over which the rate rises.
    warmup_steps: int = 10
    #: Scenes per step.
    batch: int = 16
    #: Peak learning rate.
    rate: float = 8e-3
    #: Decoupled weight decay.
    weight_decay: float = 0.0
    #: Chance that a caption is replaced by zeros, for guidance.
    drop: float = 0.1
    #: Scenes encoded in the style.
    scenes: int = 2048


class LoraTraining(Training):
    """One run; the LoRA's weights alone learn, and they alone are in a checkpoint."""

    def __init__(
        self,
        pipeline: StableDiffusionXLPipeline,
        weights: Mapping[str, nn.Parameter],
        examples: StyledScenes,
        recipe: LoraRecipe,
    ) -> None:
        """Train weights that were injected into the pipeline."""
        super().__init__(nn.ParameterList(weights.values()), recipe)
        self._names = tuple(weights)
        self._pipeline = pipeline
        self._examples = examples
        self._lora = recipe
        self._alphas = pipeline.scheduler.alphas_cumprod

    def loss(self, generator: torch.Generator) -> Tensor:
        """Give the error of the predicted velocity of one batch."""
        captions, latents = self._batch(generator)
        times = draw_times(len(latents), len(self._alphas), generator)
        noise = torch.randn(latents.shape, generator=generator)
        is_kept = torch.rand(len(latents), generator=generator) >= self._lora.drop
        alpha = self._alphas[times].view(-1, 1, 1, 1)
        noisy = alpha.sqrt() * latents + (1 - alpha).sqrt() * noise
        velocity = alpha.sqrt() * noise - (1 - alpha).sqrt() * latents
        return nn.functional.mse_loss(self._predict(noisy, times, captions, is_kept), velocity)

    @property
    def layers_per_block(self) -> int:
        """How many resnets stand in a block of the UNet."""
        count: int = self._pipeline.unet.config.layers_per_block
        return count

    def averaged_weights(self) -> dict[str, Tensor]:
        """Give the averaged weights by name."""
        return dict(zip(self._names, self.average.parameters(), strict=True))

    def _batch(self, generator: torch.Generator) -> tuple[list[str], Tensor]:
        size = (self._lora.batch,)
        picks = torch.randint(len(self._examples.captions), size, generator=generator)
        captions = [self._examples.captions[pick] for pick in picks.tolist()]
        return captions, self._examples.latents[picks].float()

    def _predict(
        self, noisy: Tensor, times: Tensor, captions: list[str], is_kept: Tensor
    ) -> Tensor:
        """Predict the velocity from what the stock pipeline makes of captions."""
        with torch.autocast("cpu", torch.bfloat16):
            context, _, pooled, _ = self._pipeline.encode_prompt(
                captions, do_classifier_free_guidance=False
            )
            kept = is_kept.to(context.dtype)
            conditions = {"text_embeds": pooled * kept[:, None], "time_ids": time_ids(len(noisy))}
            context = context * kept[:, None, None]
            out = self._pipeline.unet(noisy, times, context, added_cond_kwargs=conditions)
        predicted: Tensor = out.sample.float()
        return predicted
