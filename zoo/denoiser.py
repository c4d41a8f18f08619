"""How does one optimiser step of the denoiser go?"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from torch import Tensor, nn

from zoo.architecture import scheduler
from zoo.latents import Pool
from zoo.recipe import Recipe
from zoo.text import TextEncoders, time_ids

#: Salt of the generator of each step, so that seed and step never add up to the same draw.
_STRIDE = 1_000_003


class Networks(nn.Module):
    """What is trained together: the denoiser and both text encoders."""

    def __init__(self, unet: UNet2DConditionModel, text: TextEncoders) -> None:
        super().__init__()
        self.unet = unet
        self.text = text
        self._attend_eagerly()

    def forward(self, noisy: Tensor, times: Tensor, ids: Tensor, keep: Tensor) -> Tensor:
        """Predict the velocity.

        Shapes: noisy [B, C, h, w], times [B], ids [B, T], keep [B] of 0 or 1 -> [B, C, h, w].
        """
        context, pooled = self.text(ids)
        kept = keep.to(context.dtype)
        conditions = {"text_embeds": pooled * kept[:, None], "time_ids": time_ids(len(noisy))}
        context = context * kept[:, None, None]
        out = self.unet(noisy, times, context, added_cond_kwargs=conditions)
        velocity: Tensor = out.sample.float()
        return velocity

    def _attend_eagerly(self) -> None:
        """Avoid the fused attention, whose backward pass on a CPU costs a third of a step."""
        self.unet.set_attn_processor(AttnProcessor())
        self.text.first.set_attn_implementation("eager")
        self.text.second.set_attn_implementation("eager")


def draw_times(count: int, last: int, generator: torch.Generator) -> Tensor:
    """Draw noise levels: three in four around the middle, where shapes are decided.

    Shapes: [count], integers from 0 to last - 1.
    """
    middle = torch.sigmoid(torch.randn(count, generator=generator) + 0.2)
    anywhere = torch.rand(count, generator=generator)
    uniform = torch.rand(count, generator=generator) < 0.25
    return (torch.where(uniform, anywhere, middle) * last).long().clamp(0, last - 1)


class Training:
    """One denoiser run; each step is a pure function of the recipe, the pools and its number."""

    def __init__(self, networks: Networks, pools: Mapping[int, Pool], recipe: Recipe) -> None:
        self.networks = networks.train()
        self.average = copy.deepcopy(networks).requires_grad_(False)
        self.step = 0
        self._pools = pools
        self._recipe = recipe
        self._alphas = scheduler().alphas_cumprod
        groups = [
            {"params": list(networks.unet.parameters()), "share": 1.0},
            {"params": list(networks.text.parameters()), "share": recipe.text_rate},
        ]
        self._optimizer = torch.optim.AdamW(
            groups, lr=recipe.rate, betas=(0.9, 0.99), weight_decay=0.01, fused=True
        )

    def advance(self) -> float:
        """Take one step and give its loss."""
        generator = torch.Generator().manual_seed(self._recipe.seed * _STRIDE + self.step)
        self._set_rate()
        loss = self._loss(generator)
        self._optimizer.zero_grad(set_to_none=False)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.networks.parameters(), self._recipe.clip, foreach=True)
        self._optimizer.step()
        self._update_average()
        self.step += 1
        return loss.item()

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all."""
        partial = path.with_suffix(".partial")
        torch.save(self._state(), partial)
        partial.rename(path)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        state = torch.load(path, weights_only=True)
        self.networks.load_state_dict(state["networks"])
        self.average.load_state_dict(state["average"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "networks": self.networks.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }

    def _set_rate(self) -> None:
        rate = self._recipe.rate_at(self.step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate * group["share"]

    def _loss(self, generator: torch.Generator) -> Tensor:
        latents, ids = self._batch(generator)
        times = draw_times(len(latents), len(self._alphas), generator)
        noise = torch.randn(latents.shape, generator=generator)
        keep = torch.rand(len(latents), generator=generator) >= self._recipe.drop
        alpha = self._alphas[times].view(-1, 1, 1, 1)
        noisy = alpha.sqrt() * latents + (1 - alpha).sqrt() * noise
        velocity = alpha.sqrt() * noise - (1 - alpha).sqrt() * latents
        with torch.autocast("cpu", torch.bfloat16):
            predicted = self.networks(noisy, times, ids, keep)
        return nn.functional.mse_loss(predicted, velocity)

    def _batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        mix = self._recipe.mix_at(self.step)
        shares = torch.tensor(list(mix.values()), dtype=torch.float64)
        size = self._recipe.batch
        drawn = torch.multinomial(shares, size, replacement=True, generator=generator)
        counts = torch.bincount(drawn, minlength=len(mix)).tolist()
        picks = [
            self._pick(self._pools[level], count, generator)
            for level, count in zip(mix, counts, strict=True)
        ]
        latents, ids = zip(*picks, strict=True)
        return torch.cat(latents).float(), torch.cat(ids).long()

    @staticmethod
    def _pick(pool: Pool, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        indices = torch.randint(len(pool.latents), (count,), generator=generator)
        return pool.latents[indices], pool.ids[indices]

    @torch.no_grad()
    def _update_average(self) -> None:
        weight = 1 - self._recipe.average_at(self.step)
        averaged: list[Tensor] = list(self.average.parameters())
        current: list[Tensor] = list(self.networks.parameters())
        torch._foreach_lerp_(averaged, current, weight)
