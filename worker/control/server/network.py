"""Base class of ControlNets: residuals for rows of several images in one call."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.control.session import Opening
from worker.diffusion.device import give_memory_back, to_device
from worker.diffusion.runner import Group
from worker.diffusion.stock import Module, unhook

#: Takes residuals of all rows of a call, which follow those that it was given before.
Give = Callable[[Sequence[Tensor]], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Begun:
    """What a ControlNet knows of one image at every step, on its device."""

    condition: Tensor  #: as its ControlNet reads it at every step, [rows, C, h, w]
    text: Tensor  #: [rows, T, D]
    added: dict[str, Tensor]  #: each [rows, ...]
    alike: Group = ()  #: what else images of one call must share

    @property
    def group(self) -> Group:
        """What images of one call must share."""
        return (tuple(self.condition.shape[1:]), self.text.shape[1], *self.alike)

    @property
    def rows(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlStep:
    """One image at one step."""

    begun: Begun
    latents: Tensor  #: [1, C, h, w]
    time: float  #: timestep
    scale: float  #: of the residuals


def _nobody(found: object) -> None:
    """Whom it is told who waits for the whole."""


class Network(ABC):
    """One ControlNet, resident on a device. Each family says how it is told and called."""

    def __init__(self, controlnet: Module, *, device: torch.device, dtype: torch.dtype) -> None:
        self.controlnet = controlnet
        self.device = device
        self.dtype = dtype

    @property
    def num_bytes(self) -> int:
        """Memory that its weights take."""
        return sum(w.numel() * w.element_size() for w in self.controlnet.parameters())

    def close(self) -> None:
        """Let go of the ControlNet and its memory."""
        device = self.device
        unhook(self.controlnet)
        vars(self).clear()  # families keep parts of it
        give_memory_back(device)

    @abstractmethod
    def begin(self, opening: Opening) -> Begun:
        """Take in what an image is told of once."""

    @property
    @abstractmethod
    def num_residuals(self) -> int:
        """How many it gives at a step."""

    @property
    def split(self) -> int:
        """How many of them are for the first of two kinds of blocks, where there are two."""
        return self.num_residuals

    @abstractmethod
    def call(
        self,
        latents: Tensor,
        times: Tensor,
        *,
        condition: Tensor,
        text: Tensor,
        added: dict[str, Tensor],
        give: Give,
    ) -> None:
        """Compute residuals of rows, and give them in their order: as soon as each is of use.

        Shapes: latents [B, C, h, w], times [B], the rest [B, ...]
        """

    @torch.inference_mode()
    def residuals(
        self,
        steps: Sequence[ControlStep],
        tell: Callable[[Sequence[Sequence[Tensor]]], None] = _nobody,
    ) -> list[list[Tensor]]:
        """Compute the scaled residuals of images that share a group.

        `tell` is told those of each image there are so far, whenever there are more.
        """
        begun = [step.begun for step in steps]
        counts = [each.rows for each in begun]
        times = [step.time for step in steps for _ in range(step.begun.rows)]
        inputs = [self.here(step.latents) for step in steps for _ in range(step.begun.rows)]
        found: list[list[Tensor]] = [[] for _ in steps]

        def give(fresh: Sequence[Tensor]) -> None:
            for each in fresh:
                parts = torch.split(each, counts)
                for own, part, step in zip(found, parts, steps, strict=True):
                    own.append(part * step.scale)
            tell(found)

        self.call(
            torch.cat(inputs),
            to_device(torch.tensor(times, dtype=torch.float32), self.device),
            condition=torch.cat([each.condition for each in begun]),
            text=torch.cat([each.text for each in begun]),
            added={
                name: torch.cat([each.added[name] for each in begun]) for name in begun[0].added
            },
            give=give,
        )
        return found

    def here(self, tensor: Tensor) -> Tensor:
        """Bring a tensor to the device, as the weights are."""
        return to_device(tensor.to(self.dtype), self.device)
