"""Per-step choice of the tokens an edit computes, and recording of its template.

The first edit of a template carries one row more, which draws the template itself: an edit that
masks nothing, so its latents are known at every step. Later edits with the same noise and schedule
take from that row what their masks leave alone (InstGenIE, section 3.1). Where memory has no room
for a recording, the edit is made in full and leaves none behind.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from catalog.masking.config import Keep, MaskingConfig
from catalog.masking.costs import MaskingCosts
from core.job import JobRequest
from core.telemetry import metrics
from core.traits import Use, may
from worker.diffusion.edit import Canvas
from worker.diffusion.forward_context import NOTHING, ForwardContext
from worker.diffusion.samplers.sampler import Sampler
from worker.diffusion.stock import Module
from worker.masking.activation_prefetch import ActivationLoader, Feed
from worker.masking.activations import Activations
from worker.masking.blocks.cut import Cuts
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.rows import EditRows, MaskedRow, OwnOutputs, RecordedRow, Row
from worker.masking.drift_correction import Drift, Once, full_steps
from worker.masking.edit_pass import EditPass
from worker.masking.planner import Planner
from worker.masking.recording import Recording, RecordingKey

#: Recordings of one kind are as large a step: whether they are guided, height and width in cells.
_Kind = tuple[int, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Reuse:
    """What one edit takes from its template, or leaves behind for the next one."""

    key: RecordingKey
    feed: Feed | None  #: of what an earlier edit recorded; None until there is one
    recording: Recording | None  #: by this one, until it is finished or given up
    masked: MaskedRow
    keeps: Keep  #: of each block
    keys: Sequence[str]  #: without any of which a step runs in full; none if outputs are kept
    is_guided: bool  #: whether the first row of the edit is told what the template was
    full: frozenset[int]  #: steps of the schedule that run in full
    begin: int  #: step of the schedule that this edit begins at
    end: int  #: steps of the schedule
    drift: Drift | None = None  #: from the template

    @property
    def is_recording(self) -> bool:
        """Whether one row more draws the template, to the end even if nothing is kept of it."""
        return self.feed is None

    @property
    def signature(self) -> str:
        """Name what it takes from its template: another edit that takes the same goes on alike."""
        return "" if self.feed is None else f"{self.key.digest} {self.feed.signature}"

    def rows(self, position: int, count: int) -> list[Row]:
        """Say how each row of this edit runs at a step; the row of the template is the last."""
        if self.feed is None:
            is_kept = self.recording is not None
            last = self._recorded(self.is_guided, OwnOutputs()) if is_kept else None
            return [*([None] * (count - 1)), last]
        template = Once(self.feed.at(position))
        # Behind a block that goes by keys no block knows what the other tokens are.
        if not all(name in template for name in self.keys):
            return [None] * count
        drift = self.drift = self.drift or Drift(count)
        told_alike = [self.is_guided, *[False] * (count - 1)]
        if position in self.full:
            return [
                self._recorded(told, drift.learn(template, row))
                for row, told in enumerate(told_alike)
            ]
        return [
            self.masked.next_step(drift.correct(template, row), told)
            for row, told in enumerate(told_alike)
        ]

    def close(self) -> None:
        """Let go of its template and of what it learnt: remembered batches hold the edit itself."""
        self.drift = self.recording = None
        if self.feed is not None:
            self.feed.close()

    def _recorded(self, is_told_alike: bool, outputs: MutableMapping[str, Tensor]) -> RecordedRow:
        return RecordedRow(keeps=self.keeps, outputs=outputs, has_caption=is_told_alike)


class Reusing(Protocol):
    """A sample that may be an edit."""

    @property
    def reuse(self) -> Reuse | None: ...
    @property
    def rows(self) -> int: ...
    @property
    def sampler(self) -> Sampler: ...


class Masking:
    """Finds, begins and applies the recordings of one model's edits."""

    def __init__(
        self,
        unet: Module,
        cuts: Cuts,
        activations: Activations,
        knobs: MaskingConfig,
        *,
        weights: str,
        costs: MaskingCosts | None = None,
    ) -> None:
        """Hook the blocks that `cuts` names; `weights` tells its recordings from others'."""
        self._blocks = MaskedBlocks(unet, cuts, is_cropped=knobs.crop)
        self._keeps = knobs.keeps if self._blocks.can_keep(knobs.keeps) else Keep.OUTPUTS
        self._planner = Planner(self._blocks, costs, self._keeps)
        self._activations = activations
        self._knobs = knobs
        self._weights = weights
        self._loader = ActivationLoader(unet.device)
        self._step_bytes: dict[_Kind, int] = {}  #: what a step of the last such recording took

    @property
    def has_blocks(self) -> bool:
        """Whether the model has any block that a mask can cut."""
        return bool(self._blocks.names)

    @property
    def blocks(self) -> frozenset[str]:
        """Name the blocks that a mask can cut."""
        return frozenset([*self._blocks.names, *self._blocks.cropped])

    def blocks_of(self, context: ForwardContext) -> frozenset[str]:
        """Name those of a call: none if it is told of no edits."""
        return self.blocks if context.get(EditRows) is not None else frozenset()

    def edit_pass(self, context: ForwardContext, dtype: torch.dtype) -> EditPass | None:
        """Describe a call of one edit alone, where nothing but its tensors decides it."""
        if self._keeps is not Keep.OUTPUTS or self._blocks.cropped:
            return None
        return EditPass.of(context, dtype)

    def open(
        self,
        request: JobRequest,
        seed: int,
        canvas: Canvas,
        sampler: Sampler,
        rows: int,
        *,
        is_guided: bool,
    ) -> Reuse | None:
        """Say what the rows of an edit reuse; None if they run in full and leave nothing behind.

        None also where nothing is made anew of a template that is recorded: there is nothing to do;
        and where one that is not has no room to be recorded in.
        `is_guided`: the first row is told the negative prompt.
        """
        edit, cells = request.edit, canvas.mask[0, 0]
        if edit is None or not may(Use.REUSE, request):
            return None
        if cells.mean() > self._knobs.break_even:
            return None
        key = RecordingKey.of(
            request, seed, self._weights, is_guided=is_guided, keeps=self._knobs.keeps
        )
        steps = range(sampler.position, sampler.num_steps)
        masked = MaskedRow(cells=cells, dilate=self._knobs.dilate, cached={})
        recorded = self._find(key, steps)
        recording = self._begin((is_guided, *cells.shape), steps) if recorded is None else None
        feed = None
        if recorded is not None and not canvas.is_blank:
            choose = self._planner.choose(recorded, masked, rows)
            feed = Feed(recorded, self._loader, choose, steps)
        if feed is None and recording is None:
            return None
        return Reuse(
            key=key,
            feed=feed,
            recording=recording,
            masked=masked,
            keeps=self._keeps,
            keys=self._blocks.all_parts(Keep.KEYS) if self._keeps is Keep.KEYS else (),
            is_guided=is_guided,
            full=full_steps(steps, self._knobs.full_share),
            begin=steps.start,
            end=steps.stop,
        )

    def close(self) -> None:
        """Load nothing more."""
        self._loader.close()

    def _find(self, key: RecordingKey, steps: range) -> Recording | None:
        recorded = self._activations.find(key)
        is_whole = recorded is not None and recorded.covers(steps)
        tier = recorded.tier if recorded is not None and is_whole else "none"
        metrics.cache_hits.labels("activations", tier).inc()
        return recorded if is_whole else None

    def _begin(self, kind: _Kind, steps: range) -> Recording | None:
        """Begin a recording, of which it is known how large it gets if there was another alike."""
        recording = self._activations.begin(self._step_bytes.get(kind, 0) * len(steps))
        if recording is None:
            metrics.recordings_dropped.labels("not_begun").inc()
        return recording

    @contextmanager
    def applied(
        self, samples: Sequence[Reusing], numbers: Sequence[int] | None = None
    ) -> Iterator[ForwardContext]:
        """Say what one call for some samples is told, edits among them under their masks.

        Once it has come back, what it has left behind is kept.
        `numbers`: the rows that it consists of, with all rows of edits; all rows if it is None.
        """
        if all(sample.reuse is None for sample in samples):
            yield NOTHING
            return
        rows = [_rows(sample) for sample in samples]
        whole = [row for own in rows for row in own]
        yield ForwardContext(
            EditRows(whole if numbers is None else [whole[number] for number in numbers])
        )
        for sample, own in zip(samples, rows, strict=True):
            if sample.reuse is not None:
                self._note(sample.reuse, sample.sampler.position, own[-1])

    def _note(self, reuse: Reuse, position: int, last: Row) -> None:
        """Keep what the row of the template, the last of an edit, left behind at a step."""
        recording = reuse.recording
        if recording is None:
            return
        assert isinstance(last, RecordedRow)
        recording.keep(position, last.outputs)
        step_bytes = recording.steps[position].num_bytes
        self._step_bytes[(reuse.is_guided, *reuse.masked.cells.shape)] = step_bytes
        if not self._activations.grow(recording, step_bytes * (reuse.end - reuse.begin)):
            metrics.recordings_dropped.labels("given_up").inc()
            reuse.recording = None
        elif position == reuse.end - 1:
            self._activations.add(reuse.key, recording)
            reuse.recording = None


def _rows(sample: Reusing) -> list[Row]:
    if sample.reuse is None:
        return [None] * sample.rows
    return sample.reuse.rows(sample.sampler.position, sample.rows)
