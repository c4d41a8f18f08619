"""What is known of one image on its way through a model, and of the batch it is in?"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from worker.edit import Canvas
from worker.masking.reuse import Reuse
from worker.runner import Sample
from worker.sampling import Sampler
from worker.state import Trail


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditioning:
    """What a prompt gives the model at every step. Rows: negative first, if there is guidance."""

    text: Tensor  #: [rows, T, D]
    added: Mapping[str, Tensor] = field(default_factory=dict)  #: each [rows, ...]

    def with_row(self, of: "Conditioning") -> "Conditioning":
        """Add a row that is told what the first row of some conditioning is told."""
        return Conditioning(
            text=torch.cat([self.text, of.text[:1]]),
            added={
                name: torch.cat([value, of.added[name][:1]]) for name, value in self.added.items()
            },
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

    @classmethod
    def of(cls, samples: tuple[UNetSample, ...], batch: int) -> "Packed":
        """Pack the rows of some samples, padded up to `batch`."""
        parts = [sample.conditioning for sample in samples]
        added = {
            name: pad(torch.cat([part.added[name] for part in parts]), batch)
            for name in parts[0].added
        }
        conds = [sample.time_cond for sample in samples if sample.time_cond is not None]
        return cls(
            samples=samples,
            text=pad(torch.cat([part.text for part in parts]), batch),
            added=added or None,
            time_cond=pad(torch.cat(conds), batch) if conds else None,
        )


def pad(rows: Tensor, batch: int) -> Tensor:
    """Repeat the last row up to `batch`; its results are thrown away."""
    missing = batch - len(rows)
    if missing <= 0:
        return rows
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])
