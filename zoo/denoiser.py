"""Training loss of a UNet denoiser."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from torch import Tensor, nn

from zoo.architecture import scheduler
from zoo.captioned import Batch, Captioned
from zoo.recipe import DenoiserRecipe
from zoo.text import time_ids
from zoo.training import Training


def velocity(unet: UNet2DConditionModel, noisy: Tensor, times: Tensor, batch: Batch) -> Tensor:
    """Predict the velocity with bfloat16 products.

    Shapes: noisy [B, C, h, w], times [B] -> [B, C, h, w].
    """
    added = None
    if batch.pooled is not None:
        added = {"text_embeds": batch.pooled, "time_ids": time_ids(len(noisy))}
    with torch.autocast("cpu", torch.bfloat16):
        out = unet(noisy, times, batch.context, added_cond_kwargs=added)
    predicted: Tensor = out.sample.float()
    return predicted


def draw_times(count: int, last: int, generator: torch.Generator) -> Tensor:
    """Draw noise levels: three in four around the middle, where shapes are decided.

    Shapes: [count], integers from 0 to last - 1.
    """
    middle = torch.sigmoid(torch.randn(count, generator=generator) + 0.2)
    anywhere = torch.rand(count, generator=generator)
    uniform = torch.rand(count, generator=generator) < 0.25
    return (torch.where(uniform, anywhere, middle) * last).long().clamp(0, last - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """A model whose predictions are the target."""

    #: Its denoiser.
    unet: UNet2DConditionModel
    #: The same scenes as the pupil's, captions as its own text encoders read them.
    examples: Mapping[int, Captioned]


class DenoiserTraining(Training):
    """One run of a UNet on captioned latents; the text encoders are frozen."""

    def __init__(
        self,
        unet: UNet2DConditionModel,
        examples: Mapping[int, Captioned],
        recipe: DenoiserRecipe,
        teacher: Teacher | None = None,
    ) -> None:
        """Train towards the scenes' own velocity, or towards what a teacher predicts."""
        # The backward pass of the fused attention costs a third of a step on a CPU.
        unet.set_attn_processor(AttnProcessor())
        super().__init__(unet, recipe)
        self._unet = unet
        self._examples = examples
        self._settings = recipe
        self._alphas = scheduler().alphas_cumprod
        self._teacher = teacher

    def loss(self, generator: torch.Generator) -> Tensor:
        """Give the squared error of the velocity."""
        batch, lesson = self._draw(generator)
        times = draw_times(len(batch.latents), len(self._alphas), generator)
        noise = torch.randn(batch.latents.shape, generator=generator)
        noise = noise if batch.noise is None else batch.noise
        alpha = self._alphas[times].view(-1, 1, 1, 1)
        noisy = alpha.sqrt() * batch.latents + (1 - alpha).sqrt() * noise
        target = alpha.sqrt() * noise - (1 - alpha).sqrt() * batch.latents
        if self._teacher and lesson:
            with torch.no_grad():
                target = velocity(self._teacher.unet, noisy, times, lesson)
        return nn.functional.mse_loss(velocity(self._unet, noisy, times, batch), target)

    def _draw(self, generator: torch.Generator) -> tuple[Batch, Batch | None]:
        """Draw a batch, and the same scenes as the teacher reads them."""
        state = generator.get_state()
        batch = self._batch(self._examples, generator)
        if self._teacher is None:
            return batch, None
        return batch, self._batch(self._teacher.examples, torch.Generator().set_state(state))

    def _batch(self, examples: Mapping[int, Captioned], generator: torch.Generator) -> Batch:
        mix = self._settings.mix_at(self.step)
        shares = torch.tensor(list(mix.values()), dtype=torch.float64)
        size = self._settings.batch
        drawn = torch.multinomial(shares, size, replacement=True, generator=generator)
        counts = torch.bincount(drawn, minlength=len(mix)).tolist()
        picks = zip(mix, counts, strict=True)
        batch = Batch.join([examples[level].pick(count, generator) for level, count in picks])
        kept = torch.rand(size, generator=generator) >= self._settings.drop
        return batch.with_dropped(~kept)
