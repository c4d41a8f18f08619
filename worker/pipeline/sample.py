"""State of one image on its way through a model: conditioning, latents, sampler."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from core.errors import ControlUnavailable, EngineError, LoraUnavailable
from core.log import get_logger, log_errors
from core.uploads.ip_adapter import AppliedIpAdapter
from worker.control.client.steered import Steered
from worker.diffusion.edit import Canvas
from worker.diffusion.latent_pool import PoolRow
from worker.diffusion.runner import Sample
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.snapshot import Trail
from worker.lora.cache import Awaited
from worker.lora.mix import PLAIN, Mix
from worker.masking.reuse import Reuse
from worker.pipeline.preview import Glance

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditioning:
    """What a prompt gives the model at every step. Rows: negative first, if there is guidance."""

    text: Tensor  #: [rows, T, D]
    added: Mapping[str, Tensor] = field(default_factory=dict)  #: each [rows, ...]

    def first_rows(self, count: int = 1) -> "Conditioning":
        """Give the first rows alone."""
        added = {name: value[:count] for name, value in self.added.items()}
        return Conditioning(text=self.text[:count], added=added)

    def with_row(self, of: "Conditioning") -> "Conditioning":
        """Add a row that is told what the first row of some conditioning is told."""
        row = of.first_rows()
        return Conditioning(
            text=torch.cat([self.text, row.text]),
            added={name: torch.cat([each, row.added[name]]) for name, each in self.added.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImagePrompt:
    """A picture that an image attends to beside its prompt."""

    adapter: AppliedIpAdapter
    tokens: Tensor  #: [rows, T, D]


@dataclass(slots=True, kw_only=True, eq=False)
class UNetSample(Sample):
    """One image on its way through a UNet."""

    row: PoolRow  #: where its latents are
    sampler: Sampler
    guidance: float | None  #: scale; None where one row knows of all there is
    rescale: float = 0.0  #: share of the contrast that guidance adds which is taken back
    conditioning: Conditioning
    time_cond: Tensor | None  #: [rows, E], guidance as an embedding where the UNet takes one
    canvas: Canvas | None = None  #: of an edit
    glance: Glance | None = None  #: at its last step, if somebody wants a preview
    trail: Trail | None = None  #: what it leaves behind
    mix: Mix = PLAIN  #: LoRAs that it is made with from the next step on
    awaited: Awaited | None = None  #: LoRAs that are on their way to it
    reuse: Reuse | None = None  #: what an edit takes from its template; None computes all of it
    controls: Sequence[Steered] = ()  #: the ControlNets that steer it
    image_prompt: ImagePrompt | None = None  #: what its IP-Adapter shows
    #: Of an edit, before its last step in full: call of the model, [1, tensors, C, h, w].
    learnt: tuple[int, Tensor] | None = None
    jump: Callable[[], None] | None = None  #: moves it, after its next step, to where it stood

    @property
    def latents(self) -> Tensor:
        """Show the latents, which the next step changes. Shapes: [1, C, h, w]."""
        return self.row.latents

    @latents.setter
    def latents(self, latents: Tensor) -> None:
        self.row.put(latents)

    @property
    def is_recording(self) -> bool:
        """Whether its last row draws the template of an edit."""
        return self.reuse is not None and self.reuse.is_recording

    @property
    def stays(self) -> bool:
        """Whether all its rows are computed in this process, where what they take is."""
        if self.reuse is not None or self.image_prompt is not None:
            return True
        return any(steered.is_adapter for steered in self.controls)

    @property
    def image_rows(self) -> int:
        """How many rows make the image itself; they come first."""
        return self.rows - self.is_recording

    def stop_recording(self) -> None:
        """Leave no recording behind, as it would lack the first steps."""
        self.rows = self.image_rows
        self.conditioning = self.conditioning.first_rows(self.rows)
        self.time_cond = None if self.time_cond is None else self.time_cond[: self.rows]
        self.reuse = None

    def note_step(self) -> None:
        """Note a step of an edit: where it goes on from, and what the next one will teach it."""
        if self.jump is not None:
            self.jump()
            self.jump = None
        reuse, at = self.reuse, self.sampler.position
        if reuse is not None and reuse.feed is not None and at in reuse.full:
            self.learnt = at, self.row.whole.clone()
        if self.trail is not None:
            with log_errors(log, "latents_not_left"):  # the step itself has been taken
                self.trail.note(self.sampler, self.row)

    def blend(self, latents: Tensor) -> Tensor:
        """Put an edit's template back where it is kept, after the step that gave these latents.

        Shapes: [1, C, h, w].
        """
        if self.canvas is None:
            return latents
        return self.canvas.blend(latents, self.sampler, self.sampler.position + 1)

    def recorded(self) -> Tensor | None:
        """Give what the last row sees in place of the image: the template that it records.

        Shapes: [1, C, h, w].
        """
        reuse, canvas, at = self.reuse, self.canvas, self.sampler.position
        if reuse is None or canvas is None or at <= reuse.begin:
            return None
        return self.sampler.scale(canvas.kept(self.sampler, at))

    def waits_for(self) -> str | None:
        """Name what it cannot take the next step without, if anything."""
        if self.awaited is not None and self.awaited.is_due(self.sampler):
            return "its LoRAs"
        if not self.controls:
            return None
        for steered in self.controls:
            if self.sampler.position >= steered.steps.stop:
                steered.session.close()  # nothing is asked any more
        acting = [each for each in self.controls if self.sampler.position < each.steps.stop]
        waits = [steered.session.waits_for() for steered in acting]  # each looks after its own
        return next((what for what in waits if what is not None), None)

    def let_down(self, reason: str) -> EngineError:
        """Say which of what it waited for has not come."""
        is_lora = self.awaited is not None
        return LoraUnavailable(reason) if is_lora else ControlUnavailable(reason)

    def close(self) -> None:
        """End the ControlNet sessions of this image, and let go of what an edit learnt.

        Who remembers the batches that it was in holds it for a while.
        """
        for steered in self.controls:
            steered.session.close()
        if self.reuse is not None:
            self.reuse.close()
