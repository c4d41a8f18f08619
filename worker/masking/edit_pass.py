"""A step of one edit alone as a function of tensors, so that it can be replayed for others.

Which tokens it computes, what was recorded of its template, and by how much its blocks differ from
that are inputs like its latents. Masks of about one size are the same work: their tokens are filled
up by the first of them.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from worker.diffusion.forward_context import ForwardContext
from worker.masking.activation_prefetch import InMemory
from worker.masking.blocks.rows import EditRows, MaskedRow, RecordedRow, Row, block_of
from worker.masking.drift_correction import Corrected, Drift, Learnt, Once
from worker.masking.quantised import FlatStep

#: Shares of an image, in which its masked tokens are counted.
SHARES = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EditPass:
    """What a call of the model is told of one edit: of all its rows alike, and of nothing else."""

    rows: Sequence[Row]
    reused: Sequence[Corrected | Learnt]  #: what each row takes from the recording, or learns of it
    step: FlatStep  #: of the recording
    lengths: Sequence[int]  #: of images in tokens, of which some are computed; none if all are

    @classmethod
    def of(cls, context: ForwardContext, dtype: torch.dtype) -> "EditPass | None":
        """Describe a call; None if it is no such one, or its recording did not come whole.

        `dtype`: of what blocks make.
        """
        told = context.only(EditRows)
        rows = told.rows if told is not None else ()
        reused = [each for row in rows if (each := _reused(row)) is not None]
        if not reused or len(reused) < len(rows) or len({type(each) for each in reused}) != 1:
            return None
        template = reused[0].template
        step = template.outputs.whole() if isinstance(template, Once) else None
        if step is None or any(each.template is not template for each in reused):
            return None
        lengths: Sequence[int] = ()
        if isinstance(reused[0], Corrected):
            pictures = [step[name] for name in step if block_of(name) == name]
            lengths = sorted({each.values.shape[0] for each in pictures})
        else:
            reused[0].drift.make_room(step, dtype)
        return cls(rows=rows, reused=reused, step=step, lengths=lengths)

    @property
    def drift(self) -> Drift:
        """By how much its blocks differ from the recording."""
        return self.reused[0].drift

    @property
    def key(self) -> Hashable:
        """What decides which work it is, beside the shapes of its inputs."""
        told_alike = [isinstance(row, MaskedRow) and row.is_told_alike for row in self.rows]
        return (type(self.reused[0]), *told_alike, self.step.layout, *self.drift.offsets)

    def inputs(self) -> Sequence[Tensor]:
        """Give what decides its answer: of the recording, tokens, and what its blocks differ by."""
        tokens = [_filled_up(self._tokens(length), length) for length in self.lengths]
        return [self.step.numbers, self.step.scales, *tokens, *self.drift.offsets.values()]

    @property
    def num_changed(self) -> int:
        """Count its last inputs, that it overwrites."""
        return 0 if self.lengths else len(self.drift.offsets)

    def told(self, inputs: Sequence[Tensor]) -> ForwardContext:
        """Tell a call the same of other inputs."""
        numbers, scales, *more = inputs
        template = Once(InMemory(self.step.on(numbers, scales)))
        # Layouts are remembered by tensors of tokens, so these must be nobody else's.
        tokens = {length: own[:] for length, own in zip(self.lengths, more, strict=False)}
        offsets = dict(zip(self.drift.offsets, more[len(tokens) :], strict=True))
        drift = replace(self.drift, offsets=offsets)
        rows = [
            _told(row, replace(own, drift=drift, template=template), tokens)
            for row, own in zip(self.rows, self.reused, strict=True)
        ]
        return ForwardContext(EditRows(rows))

    def _tokens(self, length: int) -> Tensor:
        [row, *_] = self.rows
        assert isinstance(row, MaskedRow)
        return row.tokens(length)


def _reused(row: Row) -> Corrected | Learnt | None:
    if isinstance(row, MaskedRow) and isinstance(row.cached, Corrected):
        return row.cached
    if isinstance(row, RecordedRow) and isinstance(row.outputs, Learnt):
        return row.outputs
    return None


def _told(row: Row, reused: Corrected | Learnt, tokens: Mapping[int, Tensor]) -> Row:
    if isinstance(row, MaskedRow) and isinstance(reused, Corrected):
        return replace(row, cached=reused, _tokens=dict(tokens))
    assert isinstance(row, RecordedRow) and isinstance(reused, Learnt)
    return replace(row, outputs=reused)


def _filled_up(tokens: Tensor, length: int) -> Tensor:
    """Repeat the first token up to a whole share of an image, if not up to all of it.

    Shapes: [m] -> [M].
    """
    missing = min(-len(tokens) % -(-length // SHARES), max(0, length - 1 - len(tokens)))
    return torch.cat([tokens, tokens[:1].expand(missing)]) if missing else tokens
