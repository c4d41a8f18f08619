"""State of one image on its way through a model: conditioning, latents, sampler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from core.errors import ControlUnavailable, EngineError, LoraUnavailable
from worker.control.client.steering import Steered
from worker.diffusion.edit import Canvas
from worker.diffusion.runner import Sample
from worker.diffusion.sampling import Sampler
from worker.diffusion.snapshot import Trail
from worker.lora.cache import Awaited
from worker.lora.mix import PLAIN, Mix
from worker.masking.reuse import Reuse


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditioning:
    """What a prompt gives the model at every step. Rows: negative first, if there is guidance."""

    text: Tensor  #: [rows, T, D]
    added: Mapping[str, Tensor] = field(default_factory=dict)  #: each [rows, ...]

    def first_row(self) -> "Conditioning":
        """Give the first row alone."""
        added = {name: value[:1] for name, value in self.added.items()}
        return Conditioning(text=self.text[:1], added=added)

    def with_row(self, of: "Conditioning") -> "Conditioning":
        """Add a row that is told what the first row of some conditioning is told."""
        row = of.first_row()
        return Conditioning(
            text=torch.cat([self.text, row.text]),
            added={name: torch.cat([each, row.added[name]]) for name, each in self.added.items()},
        )


@dataclass(slots=True, kw_only=True, eq=False)
class UNetSample(Sample):
    """One image on its way through a UNet."""

    latents: Tensor  #: [1, C, h, w]
    sampler: Sampler
    guidance: float | None  #: scale; None where one row knows of all there is
    conditioning: Conditioning
    time_cond: Tensor | None  #: [rows, E], guidance as an embedding where the UNet takes one
    canvas: Canvas | None = None  #: of an edit
    trail: Trail | None = None  #: what it leaves behind
    mix: Mix = PLAIN  #: LoRAs that it is made with from the next step on
    awaited: Awaited | None = None  #: LoRAs that are on their way to it
    reuse: Reuse | None = None  #: what an edit takes from its template; None computes all of it
    controls: Sequence[Steered] = ()  #: the ControlNets that steer it

    def inputs(self) -> list[Tensor]:
        """Give what the model sees at this step, a row each. Shapes: [1, C, h, w]."""
        inputs = [self.sampler.scale(self.latents)] * self.rows
        reuse, canvas = self.reuse, self.canvas
        if reuse and canvas and reuse.is_recording and self.sampler.position > reuse.begin:
            inputs[-1] = self.sampler.scale(canvas.kept(self.sampler))
        return inputs

    def waits_for(self) -> str | None:
        """Name what it cannot take the next step without, if anything."""
        if self.awaited is not None and self.awaited.is_due(self.sampler):
            return "its LoRAs"
        waits = (steered.session.waits_for() for steered in self.controls)
        return next((what for what in waits if what is not None), None)

    def let_down(self, reason: str) -> EngineError:
        """Say which of what it waited for has not come."""
        is_lora = self.awaited is not None
        return LoraUnavailable(reason) if is_lora else ControlUnavailable(reason)

    def close(self) -> None:
        """End the ControlNet sessions of this image."""
        for steered in self.controls:
            steered.session.close()
