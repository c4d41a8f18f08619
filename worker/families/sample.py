"""What is known of one image on its way through a model, and of the batch it is in?"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from worker.edit import Canvas
from worker.masking.reuse import Reuse
from worker.runner import Sample
from worker.sampling import Sampler


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditioning:
    """What a prompt gives the model at every step. Rows: negative first, if there is guidance."""

    text: Tensor  #: [rows, T, D]
    added: Mapping[str, Tensor] = field(default_factory=dict)  #: each [rows, ...]

    def with_row(self, like: int) -> "Conditioning":
        """Add a row that is told what another one is told."""
        at = [*range(len(self.text)), like]
        return Conditioning(
            text=self.text[at], added={name: value[at] for name, value in self.added.items()}
        )


@dataclass(slots=True, kw_only=True, eq=False)
class UNetSample(Sample):
    """One image on its way through a UNet."""

    latents: Tensor  #: [1, C, h, w]
    sampler: Sampler
    guidance: float  #: scale; applied if there are two rows
    conditioning: Conditioning
    time_cond: Tensor | None  #: [rows, E], guidance as an embedding where the UNet takes one
    canvas: Canvas | None = None  #: of an edit
    reuse: Reuse | None = None  #: what an edit takes from its template; None computes all of it

    def inputs(self) -> list[Tensor]:
        """Give what the model sees at this step, a row each. Shapes: [1, C, h, w]."""
        inputs = [self.sampler.scale(self.latents)] * self.rows
        reuse, canvas = self.reuse, self.canvas
        if reuse and canvas and reuse.is_recording and self.sampler.position > reuse.begin:
            inputs[-1] = self.sampler.scale(canvas.kept(self.sampler))
        return inputs


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Conditioning of a batch: the same from step to step until somebody joins or leaves."""

    samples: tuple[UNetSample, ...]
    text: Tensor  #: [B, T, D]
    added: dict[str, Tensor] | None  #: each [B, ...]
    time_cond: Tensor | None  #: [B, E]


def pad(rows: Tensor, batch: int) -> Tensor:
    """Repeat the last row up to `batch`; its results are thrown away."""
    missing = batch - len(rows)
    if missing <= 0:
        return rows
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])
