"""Base class of training runs: optimiser step, weight averaging, checkpoints."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.schedule import share_of_peak

#: Salt of the generator of each step, so that seed and step never add up to the same draw.
_STRIDE = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The settings of one run; a resumed run may change `steps` alone."""

    #: Decides the scenes, the noise and the initial weights.
    seed: int = 0
    #: Optimiser steps in all.
    steps: int
    #: The last steps, over which the learning rate falls linearly.
    decay_steps: int
    #: The first steps, over which it rises.
    warmup_steps: int = 50
    #: Examples per step.
    batch: int = 64
    #: Peak learning rate.
    rate: float = 1e-3
    #: Decay of both moments.
    betas: tuple[float, float] = (0.9, 0.99)
    #: Decoupled weight decay.
    weight_decay: float = 0.01
    #: Largest gradient norm.
    clip: float = 1.0
    #: Decay of the averaged weights; 0 averages nothing.
    average: float = 0.998

    def rate_at(self, step: int) -> float:
        """Give the learning rate: warm-up, constant, linear decay."""
        return self.rate * share_of_peak(
            step,
            steps=self.steps,
            decay_steps=self.decay_steps,
            warmup_steps=self.warmup_steps,
        )

    def average_at(self, step: int) -> float:
        """Give the decay of the averaged weights, shorter at the start."""
        return min(self.average, (1 + step) / (10 + step))


class Training(ABC):
    """One run; each step is a pure function of the recipe and its number."""

    def __init__(
        self, model: nn.Module, recipe: Recipe, shares: Mapping[nn.Module, float] | None = None
    ) -> None:
        """Train the weights that require gradients; `shares` scales the rate of parts."""
        #: What is trained.
        self.model = model.train()
        #: Its averaged weights, which are what a run is for.
        self.average = copy.deepcopy(model).requires_grad_(False)
        #: Steps done.
        self.step = 0
        self._recipe = recipe
        groups = [
            {"params": [each for each in part.parameters() if each.requires_grad], "share": share}
            for part, share in (shares or {model: 1.0}).items()
        ]
        self._optimizer = torch.optim.AdamW(
            groups,
            lr=recipe.rate,
            betas=recipe.betas,
            weight_decay=recipe.weight_decay,
            fused=True,
        )

    @abstractmethod
    def loss(self, generator: torch.Generator) -> Tensor:
        """Give the loss of one batch, which the generator decides."""

    def advance(self) -> float:
        """Take one step and give its loss."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._recipe.rate_at(self.step) * group["share"]
        seed = self._recipe.seed * _STRIDE + self.step
        loss = self.loss(torch.Generator().manual_seed(seed))
        self._optimizer.zero_grad(set_to_none=False)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), self._recipe.clip, foreach=True)
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
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }

    @torch.no_grad()
    def _update_average(self) -> None:
        weight = 1 - self._recipe.average_at(self.step)
        averaged: list[Tensor] = list(self.average.parameters())
        current: list[Tensor] = list(self.model.parameters())
        torch._foreach_lerp_(averaged, current, weight)


def averaged(checkpoint: Path) -> dict[str, Tensor]:
    """Read the averaged weights of a checkpoint."""
    state: dict[str, Tensor] = torch.load(checkpoint, weights_only=True)["average"]
    return state
