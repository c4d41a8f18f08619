"""Benchmark overlap of activation loading with compute, also from a slow store.

Edits whose recording lies in files that are read no faster than it takes to compute a
step under the mask: the rate at which waiting for them costs as much as they save. Wall time, as
waiting is what this is about.

    python -m bench.overlap --quick
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import typer

from bench.edit import SEED, SIDE, Subject
from bench.parts.report import Figure, at_least, at_most, finish, machine, median, plain
from catalog.masking.costs import CostLine, MaskingCosts
from catalog.masking.plan import BlockTimes, StepPlan, plan_ahead, plan_exactly, plan_greedily
from core.job import Quality
from profiling.block_times import measure_compute
from worker.diffusion.forward_context import ForwardContext
from worker.masking.activation_prefetch import ActivationLoader, Feed, InMemory
from worker.masking.blocks.rows import EditRows, Row
from worker.masking.cache import RecordingCache
from worker.masking.planner import Planner
from worker.masking.quantised import Quantised, RestoredOutputs
from worker.masking.recording import Recording, RecordingKey, read_blocks
from worker.pipeline.sample import UNetSample

RATIO = 0.11

#: Plans a step from what its blocks take.
Plan = Callable[[Sequence[BlockTimes]], StepPlan]
PLANS: dict[str, Plan] = {
    "ahead of the step (ours)": plan_ahead,
    "exact in the step": plan_exactly,
    "the paper's": plan_greedily,
}


class Throttled:
    """Reads files at a limited rate, one after another as a store would."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0  #: when the next byte may come, monotonic s

    def __call__(self, path: Path, names: list[str]) -> Iterator[tuple[str, Quantised]]:
        for name, block in read_blocks(path, names):
            begun = max(time.monotonic(), self._free_at)
            self._free_at = begun + block.num_bytes / self._bytes_per_s
            time.sleep(max(0.0, self._free_at - time.monotonic()))
            yield name, block


class Naive(Feed):
    """Loads a whole step, and only then has it computed."""

    def __init__(self, recording: Recording, read: Throttled, names: Sequence[str]) -> None:
        self._files, self._read, self._names = recording.files, read, list(names)

    def at(self, position: int) -> RestoredOutputs:
        return InMemory(dict(self._read(self._files[position], self._names)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one edit took."""

    step_s: float  #: the middle one of its steps
    edit_s: float  #: from its prompt to its pixels


class Overlap:
    """One template on disk, and steps of edits of it."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject = subject
        masking = subject.runner.overlays._masking
        assert masking is not None
        self.blocks = masking._blocks
        self.planner = Planner(self.blocks, None)
        key = RecordingKey.of(subject.request(), SEED, subject.runner.model.name, is_guided=True)
        found = masking._activations.find(key)
        assert found is not None
        self.memory = found
        self.files = Recording(files=RecordingCache(folder, 2**40).save(key.digest, found.steps))
        self.step_bytes = sum(block.num_bytes for block in found.steps[0].values())

    def taken(self, feed: Feed | None) -> Taken:
        """Make an edit with a feed, or in full without."""
        quality = Quality.EXACT if feed is None else Quality.AUTO
        begun = time.perf_counter()
        sample = self.subject.open(RATIO, quality)
        if sample.reuse is not None:
            sample.reuse.feed, sample.reuse.full = feed, frozenset()
        steps = [self._one(sample) for _ in range(self.subject.steps)]
        self.subject.runner.decode(sample)
        return Taken(step_s=median(steps[1:]), edit_s=time.perf_counter() - begun)

    def _one(self, sample: UNetSample) -> float:
        begun = time.perf_counter()
        self.subject.runner.advance([sample], self.subject.runner.forward([sample]))
        return time.perf_counter() - begun

    def costs(self, bytes_per_s: float) -> MaskingCosts:
        """Measure what blocks take; what loads take is given."""
        runner, sample = self.subject.runner, self.subject.open(RATIO, Quality.EXACT)

        def run(rows: Sequence[Row]) -> None:
            with self.blocks.hooked.running(ForwardContext(EditRows(rows))):
                runner.forward([sample])

        side = SIDE // runner.pipe.vae_scale_factor
        with torch.inference_mode():
            compute, rest_s, _ = measure_compute(runner.unet, self.blocks, run, (side, side))
        return MaskingCosts(
            compute=compute,
            load=CostLine(start_s=0.0, per_unit_s=(1 / bytes_per_s,), r2=1.0),
            copy=CostLine(start_s=0.0, per_unit_s=(0.0,), r2=1.0),
            rest_s=rest_s,
        )

    def times(self, costs: MaskingCosts) -> dict[str, BlockTimes]:
        """Expect what each block takes."""
        reuse = self.subject.open(RATIO).reuse
        assert reuse is not None
        return self.planner.times(costs, self.files, reuse.masked, 2, is_in_memory=False)

    def feed(self, recording: Recording, read: Throttled | None, names: Sequence[str]) -> Feed:
        """Feed the steps of an edit, some of the blocks from what was recorded."""
        loader = ActivationLoader(torch.device("cpu"), read or read_blocks)
        return Feed(recording, loader, lambda is_in_memory: names, range(self.subject.steps))


def measure(overlap: Overlap, rounds: int) -> dict[str, Figure]:
    """Compare ways of loading within one run."""
    names = overlap.blocks.names
    in_memory = partial(overlap.feed, overlap.memory, None, names)
    cached_s = median([overlap.taken(in_memory()).step_s for _ in range(2)])
    rate = overlap.step_bytes / cached_s
    costs = overlap.costs(rate)
    times = overlap.times(costs)
    ways: dict[str, Callable[[], Feed | None]] = {
        "memory": in_memory,
        "computed": lambda: None,
        "naive": lambda: Naive(overlap.files, Throttled(rate), names),
    }
    chosen = {}
    for name, plan in PLANS.items():
        uses = plan(list(times.values())).uses_cache
        chosen[name] = [block for block, is_used in zip(times, uses, strict=True) if is_used]
        ways[name] = partial(
            lambda of: overlap.feed(overlap.files, Throttled(rate), of), chosen[name]
        )
    taken: dict[str, list[Taken]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(overlap.taken(way()))
    middle = {
        name: Taken(
            step_s=median([each.step_s for each in made]),
            edit_s=median([each.edit_s for each in made]),
        )
        for name, made in taken.items()
    }
    return _figures(middle, chosen, costs, rate)


def _figures(
    taken: dict[str, Taken], chosen: dict[str, list[str]], costs: MaskingCosts, rate: float
) -> dict[str, Figure]:
    steps = {name: each.step_s for name, each in taken.items()}
    edits = {name: each.edit_s for name, each in taken.items()}
    best = min(steps["memory"], steps["computed"])
    best_edit = min(edits["memory"], edits["computed"])
    ours, *others = PLANS
    figures = {
        "rate of the store": plain(rate / 2**20, "MiB/s"),
        "step, all from memory": plain(steps["memory"] * 1e3, "ms"),
        "step, all computed": plain(steps["computed"] * 1e3, "ms"),
        "step, loaded and then computed": plain(steps["naive"] * 1e3, "ms"),
        "edit, loaded and then computed": plain(edits["naive"] * 1e3, "ms"),
        f"plan {ours}: edit / the better": at_most(edits[ours] / best_edit, 1.1, "ratio"),
        f"plan {ours}: naive / edit": at_least(edits["naive"] / edits[ours], 1.25, "ratio"),
        f"plan {ours}: step / the better": plain(steps[ours] / best, "ratio"),
        f"plan {ours}: naive / step": plain(steps["naive"] / steps[ours], "ratio"),
        "R2 of what blocks take": plain(costs.compute.r2, ""),
    }
    for name in others:
        figures[f"plan {name}: step / the better"] = plain(steps[name] / best, "ratio")
    for name, blocks in chosen.items():
        figures[f"plan {name}: blocks loaded"] = plain(len(blocks), "blocks")
    return figures


def main(
    quick: bool = typer.Option(False, help="Fewer rounds and steps, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure how much loading hides. Example: `python -m bench.overlap --quick`."""
    torch.set_num_threads(1)
    subject = Subject(steps=8 if quick else 20)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Overlap(subject, Path(folder)), 3 if quick else 5)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("overlap", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
