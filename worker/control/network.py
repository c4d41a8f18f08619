"""Which residuals do the rows of several images get from one ControlNet, in one call?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from core.errors import BadWeights
from worker.control.session import Opening, Residuals
from worker.device import parse_device, parse_dtype, to_device
from worker.runner import Group
from worker.stock import Module, hook_forward, load_controlnet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Begun:
    """What a ControlNet knows of one image at every step, on its device."""

    condition: Tensor  #: embedded, [rows, C, h, w]
    text: Tensor  #: [rows, T, D]
    added: dict[str, Tensor]  #: each [rows, ...]

    @property
    def group(self) -> Group:
        """What images of one call must share."""
        return (tuple(self.condition.shape[1:]), self.text.shape[1])

    @property
    def rows(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One image at one step."""

    begun: Begun
    latents: Tensor  #: [1, C, h, w]
    time: float  #: timestep
    scale: float  #: of the residuals


class Network:
    """One ControlNet of the UNet families, resident on a device."""

    def __init__(self, controlnet: Module, *, device: torch.device, dtype: torch.dtype) -> None:
        if controlnet.config.global_pool_conditions:
            raise BadWeights("a ControlNet that pools its condition is not served")
        self._controlnet = controlnet
        self._device = device
        self._dtype = dtype
        self._embed = controlnet.controlnet_cond_embedding.forward
        # The condition is embedded once an image: stock embeds it again at every step.
        hook_forward(controlnet.controlnet_cond_embedding, "embedded", _as_it_is)

    @classmethod
    def load(cls, folder: Path, *, device: str, dtype: str) -> "Network":
        """Load a stock folder. Raises: BadWeights naming the file and the reason."""
        target, precision = parse_device(device), parse_dtype(dtype)
        controlnet = load_controlnet(folder, precision).to(target)
        return cls(controlnet, device=target, dtype=precision)

    @property
    def num_bytes(self) -> int:
        """Memory that its weights take."""
        return sum(w.numel() * w.element_size() for w in self._controlnet.parameters())

    @torch.inference_mode()
    def begin(self, opening: Opening) -> Begun:
        """Embed the condition of an image, as often as it has rows: stock embeds them together."""
        pixels = to_device(opening.condition, self._device).permute(2, 0, 1)[None]
        condition = (pixels.float() / 255).to(self._dtype).repeat(len(opening.text), 1, 1, 1)
        embedded = self._embed(self._ordered(condition.contiguous()))
        return Begun(
            condition=self._ordered(embedded),
            text=self._here(opening.text),
            added={name: self._here(value) for name, value in opening.added.items()},
        )

    @torch.inference_mode()
    def residuals(self, steps: Sequence[Step]) -> list[Residuals]:
        """Compute the scaled residuals of images that share a group."""
        begun = [step.begun for step in steps]
        counts = [each.rows for each in begun]
        times = [step.time for step in steps for _ in range(step.begun.rows)]
        inputs = [self._here(step.latents) for step in steps for _ in range(step.begun.rows)]
        down, middle = self._controlnet(
            torch.cat(inputs),
            to_device(torch.tensor(times, dtype=torch.float32), self._device),
            encoder_hidden_states=torch.cat([each.text for each in begun]),
            controlnet_cond=torch.cat([each.condition for each in begun]),
            added_cond_kwargs={
                name: torch.cat([each.added[name] for each in begun]) for name in begun[0].added
            },
            return_dict=False,
        )
        parts = zip(*(torch.split(each, counts) for each in (*down, middle)), strict=True)
        return [[part * step.scale for part in own] for step, own in zip(steps, parts, strict=True)]

    def _here(self, tensor: Tensor) -> Tensor:
        return to_device(tensor.to(self._dtype), self._device)

    def _ordered(self, channels: Tensor) -> Tensor:
        """Turn channels over where stock turns what it is given over before it is embedded."""
        is_bgr = self._controlnet.config.controlnet_conditioning_channel_order == "bgr"
        return channels.flip(1) if is_bgr else channels


def alike(steps: Sequence[Step]) -> Iterator[list[int]]:
    """Number the steps that can share a call, one group after another."""

    def key(index: int) -> str:
        return repr(steps[index].begun.group)

    for _, members in groupby(sorted(range(len(steps)), key=key), key):
        yield list(members)


def _as_it_is(whole: object, module: Module, embedded: Tensor) -> Tensor:
    del whole, module
    return embedded
