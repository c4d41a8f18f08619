"""Choose the blocks that an edit loads, by the measured costs of this model and device."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache

from catalog.masking.config import Keep
from catalog.masking.costs import BlockShape, MaskingCosts
from catalog.masking.plan import BlockTimes, StepPlan, plan_ahead, plan_whole
from worker.masking.activation_prefetch import Choose
from worker.masking.blocks.masked import MaskedBlocks
from worker.masking.blocks.rows import MaskedRow, block_of
from worker.masking.recording import DamagedRecording, Recording, StepFile


class Planner:
    """Plans the steps of edits. Without costs to trust everything that was recorded is used."""

    def __init__(
        self, blocks: MaskedBlocks, costs: MaskingCosts | None, keeps: Keep = Keep.OUTPUTS
    ) -> None:
        self._blocks = blocks
        self._keeps = keeps
        self._plan = plan_ahead if keeps is Keep.OUTPUTS else plan_whole
        self._costs = costs if costs is not None and costs.is_trusted else None

    def choose(self, recording: Recording, row: MaskedRow, rows: int) -> Choose:
        """Plan for the rows of one edit, once for each place that steps are loaded from."""

        cropped = self._blocks.cropped

        @cache
        def names(is_in_memory: bool) -> Sequence[str]:
            if self._costs is None:
                return _in_order({*self._blocks.names, *cropped}, recording)
            times = self.times(self._costs, recording, row, rows, is_in_memory=is_in_memory)
            plan = self._plan(list(times.values()))
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
            parts = self._blocks.parts(name, self._keeps)
            if parts[0] in sizes:
                tokens, channels = sizes[parts[0]]
                weights = self._blocks.weights[name]
                keys = len(parts) if self._keeps is Keep.KEYS else 0
                shape = BlockShape(tokens=tokens, channels=channels, weights=weights, keys=keys)
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


def _in_order(blocks: Collection[str], recording: Recording) -> list[str]:
    """Name what was recorded of some blocks, as it was made: a caption behind its picture."""
    return [name for name in sizes_of(recording) if block_of(name) in blocks]


def _used(names: Sequence[str], plan: StepPlan) -> list[str]:
    return [name for name, is_used in zip(names, plan.uses_cache, strict=True) if is_used]
