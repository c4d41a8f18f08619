"""Which blocks does one edit load, as this model on this device is known to cost?"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache

from worker.masking.blocks import MaskedBlocks
from worker.masking.costs import BlockShape, MaskingCosts
from worker.masking.feed import Choose
from worker.masking.plan import BlockTimes, StepPlan, plan_ahead
from worker.masking.recording import DamagedRecording, Recording, StepFile
from worker.masking.rows import MaskedRow, caption_of

#: Costs that explain less of what was measured than this (R2) plan nothing.
TRUSTED = 0.9


class Planner:
    """Plans the steps of edits. Without costs to trust everything that was recorded is used."""

    def __init__(self, blocks: MaskedBlocks, costs: MaskingCosts | None) -> None:
        self._blocks = blocks
        self._costs = costs if costs is not None and costs.compute.r2 >= TRUSTED else None

    def choose(self, recording: Recording, row: MaskedRow, rows: int) -> Choose:
        """Plan for the rows of one edit, once for each place that steps are loaded from."""

        cropped = self._blocks.cropped

        @cache
        def names(is_in_memory: bool) -> Sequence[str]:
            if self._costs is None:
                return _in_order({*self._blocks.names, *cropped}, recording)
            times = self.times(self._costs, recording, row, rows, is_in_memory=is_in_memory)
            plan = plan_ahead(list(times.values()))
            return _in_order({*_used(list(times), plan), *cropped}, recording)

        return names

    def times(
        self,
        costs: MaskingCosts,
        recording: Recording,
        row: MaskedRow,
        rows: int,
        *,
        is_in_memory: bool,
    ) -> dict[str, BlockTimes]:
        """Expect what each recorded block takes, in the order they run."""
        sizes = sizes_of(recording)
        found = {}
        for name in self._blocks.names:
            if name in sizes:
                tokens, channels = sizes[name]
                weights = self._blocks.weights[name]
                shape = BlockShape(tokens=tokens, channels=channels, weights=weights)
                masked = len(row.tokens(tokens))
                found[name] = costs.times(shape, masked, rows, is_in_memory=is_in_memory)
        return found


def sizes_of(recording: Recording) -> dict[str, tuple[int, int]]:
    """Read tokens and channels of every recorded block, from any of the steps."""
    for blocks in recording.steps.values():
        return {
            name: (block.values.shape[0], block.values.shape[1]) for name, block in blocks.items()
        }
    for path in recording.files.values():
        with suppress(DamagedRecording), StepFile(path) as file:
            return file.sizes
    return {}


def _in_order(names: Collection[str], recording: Recording) -> list[str]:
    """Name what was recorded as it was made, what a block made of its caption with the block."""
    wanted = {*names, *map(caption_of, names)}
    return [name for name in sizes_of(recording) if name in wanted]


def _used(names: Sequence[str], plan: StepPlan) -> list[str]:
    return [name for name, is_used in zip(names, plan.uses_cache, strict=True) if is_used]
