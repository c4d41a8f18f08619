"""Training loss of a ControlNet."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from diffusers import ControlNetModel, StableDiffusionXLPipeline
from diffusers.models.attention_processor import AttnProcessor
from torch import Tensor, nn

from zoo.architecture import scheduler
from zoo.control.condition import Kind, view
from zoo.control.network import zero_convolutions
from zoo.latents import Pool
from zoo.scenes import LEVELS, Picture, training_scene
from zoo.text import SdxlReader, time_ids
from zoo.training import Recipe, Training

#: Seed of the scenes in the pools; fixes which scene a latent shows.
POOL_SEED = 0

#: Shares of the levels: many figures are harder to place.
_MIX = (0.08, 0.16, 0.24, 0.26, 0.26)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecipe(Recipe):
    """The settings of one ControlNet run."""

    #: Which condition it learns.
    kind: Kind
    #: Optimiser steps in all.
    steps: int = 600
    #: The last steps, of falling rate.
    decay_steps: int = 300
    #: The first steps, of rising rate.
    warmup_steps: int = 30
    #: Scenes per step.
    batch: int = 32
    #: Times the rate of the copied layers, for the zero convolutions, which start far from home.
    zero_rate: float = 5.0
    #: Likewise for the embedding of the condition.
    embedding_rate: float = 2.0
    #: Chance that the caption is replaced by zeros, so that the condition alone must tell.
    drop: float = 0.4
    #: Share of the draws at noise levels from `decisive` on.
    decisive_share: float = 0.8
    #: Noise level from which on what goes where is decided.
    decisive: int = 400


def draw_times(count: int, last: int, recipe: ControlRecipe, generator: torch.Generator) -> Tensor:
    """Draw noise levels, most of them where places and outlines are decided.

    Shapes: [count], integers from 0 to last - 1.
    """
    within = torch.rand(count, generator=generator)
    is_high = torch.rand(count, generator=generator) < recipe.decisive_share
    high = recipe.decisive + within * (last - recipe.decisive)
    return torch.where(is_high, high, within * recipe.decisive).long().clamp(0, last - 1)


def conditions(pictures: list[Picture]) -> Tensor:
    """Turn condition pictures into the tensor that the stock pipeline makes of them.

    Shapes: n of [H, W, 3] -> [n, 3, H, W].
    Units: 0..255 -> 0..1.
    """
    stacked = torch.stack([torch.from_numpy(picture) for picture in pictures])
    return stacked.permute(0, 3, 1, 2).float() / 255


def _rate_shares(controlnet: ControlNetModel, recipe: ControlRecipe) -> dict[nn.Module, float]:
    new = {
        zero_convolutions(controlnet): recipe.zero_rate,
        controlnet.controlnet_cond_embedding: recipe.embedding_rate,
    }
    mine = {weight for part in new for weight in part.parameters()}
    copied = nn.ParameterList([weight for weight in controlnet.parameters() if weight not in mine])
    return {copied: 1.0} | new


class ControlTraining(Training):
    """One run: the ControlNet learns, the base model stays."""

    def __init__(
        self,
        controlnet: ControlNetModel,
        base: StableDiffusionXLPipeline,
        pools: Mapping[int, Pool],
        recipe: ControlRecipe,
    ) -> None:
        """Train a ControlNet for a base model on the pools of seed POOL_SEED."""
        shares = _rate_shares(controlnet, recipe)
        super().__init__(controlnet, recipe, shares)
        self._control = recipe
        self._pools = pools
        self._unet = base.unet.requires_grad_(False).eval()
        self._read = SdxlReader(base.text_encoder, base.text_encoder_2).requires_grad_(False)
        self._alphas = scheduler().alphas_cumprod
        for network in (controlnet, self._unet):
            network.set_attn_processor(AttnProcessor())

    def loss(self, generator: torch.Generator) -> Tensor:
        """Give the error of the velocity predicted under the condition."""
        latents, ids, views = self._batch(generator)
        times = draw_times(len(latents), len(self._alphas), self._control, generator)
        noise = torch.randn(latents.shape, generator=generator)
        alpha = self._alphas[times].view(-1, 1, 1, 1)
        noisy = alpha.sqrt() * latents + (1 - alpha).sqrt() * noise
        velocity = alpha.sqrt() * noise - (1 - alpha).sqrt() * latents
        with torch.autocast("cpu", torch.bfloat16):
            predicted = self._predict(noisy, times, *self._captions(ids, generator), views)
        return nn.functional.mse_loss(predicted.float(), velocity)

    @torch.no_grad()
    def _captions(self, ids: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Encode captions; some become zeros, which is how an SDXL pipeline says nothing.

        Shapes: ids [B, T] -> context [B, T, C], pooled [B, P].
        """
        kept = torch.rand(len(ids), generator=generator) >= self._control.drop
        context, pooled = self._read(ids)
        return context * kept[:, None, None], pooled * kept[:, None]

    def _predict(
        self, noisy: Tensor, times: Tensor, context: Tensor, pooled: Tensor, views: Tensor
    ) -> Tensor:
        added = {"text_embeds": pooled, "time_ids": time_ids(len(noisy))}
        down, middle = self.model(
            noisy, times, context, views, added_cond_kwargs=added, return_dict=False
        )
        out = self._unet(
            noisy,
            times,
            context,
            added_cond_kwargs=added,
            down_block_additional_residuals=down,
            mid_block_additional_residual=middle,
        )
        velocity: Tensor = out.sample
        return velocity

    def _batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        levels = torch.multinomial(
            torch.tensor(_MIX), self._control.batch, replacement=True, generator=generator
        )
        places = torch.rand(self._control.batch, generator=generator)
        drawn = zip(levels.tolist(), places.tolist(), strict=True)
        rows = [self._row(LEVELS[level], place) for level, place in drawn]
        latents, ids, views = zip(*rows, strict=True)
        return torch.stack(latents).float(), torch.stack(ids).long(), conditions(list(views))

    def _row(self, level: int, place: float) -> tuple[Tensor, Tensor, Picture]:
        pool = self._pools[level]
        index = int(place * len(pool.latents))
        scene = training_scene(level, POOL_SEED, index)
        return pool.latents[index], pool.ids[index], view(self._control.kind, scene)
