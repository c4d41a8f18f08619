"""Flow-matching loss of the transformer."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import cast

import torch
from diffusers import SD3Transformer2DModel
from torch import Tensor
from torch.nn import functional

from zoo.dit.architecture import SHIFT, STEPS
from zoo.dit.attention import HalfFoldedAttention, PlainFoldedAttention
from zoo.dit.positions import TOKENS, rescaled
from zoo.dit.text import Captions
from zoo.latents import Pool
from zoo.scenes import LEVELS
from zoo.training import Recipe, Training


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRecipe(Recipe):
    """The settings of one run of the transformer."""

    #: Optimiser steps in all.
    steps: int = 4000
    #: The last steps, over which the learning rate falls linearly.
    decay_steps: int = 2000
    #: The first steps, over which it rises.
    warmup_steps: int = 100
    #: Examples per step.
    batch: int = 32
    #: Peak learning rate.
    rate: float = 1.2e-3
    #: Shares of the levels at the start.
    early_mix: tuple[float, ...] = (0.30, 0.32, 0.26, 0.07, 0.05)
    #: Shares of the levels at the end of `mix_steps`.
    late_mix: tuple[float, ...] = (0.10, 0.26, 0.34, 0.16, 0.14)
    #: Steps over which the mix of levels moves from the early one to the late one.
    mix_steps: int = 3000
    #: The side of the pictures, in sides of 64 pixels, from a share of the steps on.
    scales: tuple[tuple[float, int], ...] = ((0.0, 1),)
    #: Share of times drawn uniformly, so that nearly clean pictures are seen at all.
    uniform: float = 0.2
    #: Chance that a caption is replaced by the empty one, for guidance.
    drop: float = 0.1

    def lasting(self, steps: int, seed: int) -> "FlowRecipe":
        """Give a run of as many steps, its rate falling over the same share of them."""
        decay = round(steps * self.decay_steps / self.steps)
        return replace(self, seed=seed, steps=steps, decay_steps=decay)

    def mix_at(self, step: int) -> Tensor:
        """Give the share of each level. Shapes: [levels]."""
        late = min(1.0, step / self.mix_steps)
        return torch.lerp(torch.tensor(self.early_mix), torch.tensor(self.late_mix), late)

    def scale_at(self, step: int) -> int:
        """Give the side of the pictures, in sides of 64 pixels."""
        return [scale for share, scale in self.scales if step >= share * self.steps][-1]


def draw_times(
    count: int, generator: torch.Generator, shift: float = SHIFT, uniform: float = 0.2
) -> Tensor:
    """Draw times of the flow from picture (0) to noise (1).

    Logit-normal, shifted towards noise as the sampler's; a share is uniform.
    Source: Esser et al. 2024, §3.1 and §5.3.2, equation 23.
    Shapes: [count].
    """
    middle = torch.sigmoid(torch.randn(count, generator=generator))
    anywhere = torch.rand(count, generator=generator)
    is_uniform = torch.rand(count, generator=generator) < uniform
    return torch.where(is_uniform, anywhere, shift * middle / (1 + (shift - 1) * middle))


class FlowTraining(Training):
    """One run of the transformer; its text encoders stay as they are."""

    def __init__(
        self,
        model: SD3Transformer2DModel,
        captions: Captions,
        pools: Mapping[int, Mapping[int, Pool]],
        recipe: FlowRecipe,
    ) -> None:
        """Train on pools by scale and level."""
        is_large = max(pools) > 1
        model.set_attn_processor(HalfFoldedAttention() if is_large else PlainFoldedAttention())
        for encoder in (captions.first, captions.second):
            encoder.set_attn_implementation("eager")
        super().__init__(model, recipe)
        self._captions = captions
        self._pools = pools
        self._flow = recipe

    def loss(self, generator: torch.Generator) -> Tensor:
        """Compare predicted and true velocities (rectified flow)."""
        scale = self._flow.scale_at(self.step)
        latents, ids = self._batch(self._pools[scale], generator)
        times = draw_times(len(latents), generator, SHIFT * scale, self._flow.uniform)
        noise = torch.randn(latents.shape, generator=generator)
        is_dropped = torch.rand(len(latents), generator=generator) < self._flow.drop
        ids = torch.where(is_dropped[:, None], self._captions.nothing(), ids)
        noisy = torch.lerp(latents, noise, times.view(-1, 1, 1, 1))
        with self._sized(scale), torch.autocast("cpu", torch.bfloat16):
            context, pooled = self._captions(ids)
            velocity = self.model(noisy, context, pooled, times * STEPS).sample
        return functional.mse_loss(velocity.float(), noise - latents)

    def _sized(self, scale: int) -> AbstractContextManager[None]:
        model = cast(SD3Transformer2DModel, self.model)
        is_own = TOKENS * scale * model.config.patch_size == model.config.sample_size
        return nullcontext() if is_own else rescaled(model, TOKENS * scale)

    def _batch(
        self, pools: Mapping[int, Pool], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        mix = self._flow.mix_at(self.step)
        drawn = torch.multinomial(mix, self._flow.batch, replacement=True, generator=generator)
        counts = torch.bincount(drawn, minlength=len(mix)).tolist()
        picks = [
            _pick(pools[level], count, generator)
            for level, count in zip(LEVELS, counts, strict=True)
        ]
        latents, ids = zip(*picks, strict=True)
        return torch.cat(latents).float(), torch.cat(ids).long()


def _pick(pool: Pool, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    indices = torch.randint(len(pool.latents), (count,), generator=generator)
    return pool.latents[indices], pool.ids[indices]
