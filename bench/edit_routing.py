"""Benchmark routing of masked edits: latency by dispatch policy, in virtual time.

Four workers in virtual time, at 70 to 90 % of what they sustain where the fewest requests decide.
What steps and loads take is measured first, of the model of `bench.edit`: a random one with
attention at every token. Templates are asked for by Zipf's law and kept within the budgets that a
worker has by default, so not every worker has every recording. Where all have all, less can be
won: edits of one batch share its steps, so what matters is how much work each worker has.

    python -m bench.edit_routing --quick
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
import typer

from bench.edit import SIDE, Subject, cpu_s, request_of
from bench.parts.edit_fleet import MODEL, SETTINGS, STEPS, Fleet, Scene, draw
from bench.parts.edit_scores import SCORES, EditRouting
from bench.parts.random_sdxl import MEDIUM, build
from bench.parts.report import Figure, at_least, finish, machine, median, percentile, plain
from catalog.masking.costs import MaskingCosts
from core.boards.image_work import ImageWork
from core.job import Quality
from core.model import Model
from profiling.masks import masking_costs
from scheduler.placement.step_cost import StepCosts, Tier, block_times
from worker.families.sdxl import SdxlRunner

#: How much lower the 95th percentile of latency must be than by requests, and by tokens.
SAVED = 0.2
#: Of what the fleet sustains where the fewest requests decide.
LOADS = (0.7, 0.8, 0.9)
#: Mean shares of an image under a mask (InstGenIE, Fig. 3).
MASKS = (0.11, 0.19)
#: Share of the edits that find caches still filling; they do not count.
WARM_UP = 0.3
#: Masks of batches that are timed to see what the lines are worth; None is an edit in full.
BATCHES: tuple[tuple[float | None, ...], ...] = (
    (0.05,),
    (0.35,),
    (None,),
    (0.05, 0.11),
    (0.2, None),
    (0.11, 0.2, 0.35),
    (0.05, 0.05, 0.05, 0.05),
    (0.05, 0.11, 0.35, None),
)


def measured_costs() -> MaskingCosts:
    """Measure what blocks and loads of the model take, as `atelier profile` does."""
    model = Model(name="medium", family="sdxl", default_size=SIDE, max_size=SIDE)
    pipe = build(MEDIUM, device="cpu", dtype=torch.float32)
    runner = SdxlRunner(model, pipe, device=torch.device("cpu"), dtype=torch.float32)
    request = replace(request_of(STEPS), edit=None)
    costs = masking_costs(runner, request)
    assert costs is not None
    return costs


def batch_r2(costs: MaskingCosts, rounds: int) -> float:
    """Compare steps of whole batches with what is expected of them; the share explained."""
    subject = Subject(2)
    pairs = [(_step_s(subject, masks, rounds), _expected_s(costs, masks)) for masks in BATCHES]
    mean = sum(taken for taken, _ in pairs) / len(pairs)
    missed = sum((taken - expected) ** 2 for taken, expected in pairs)
    return 1 - missed / sum((taken - mean) ** 2 for taken, _ in pairs)


def _step_s(subject: Subject, masks: Sequence[float | None], rounds: int) -> float:
    """Time a step that follows one in full."""
    samples = []
    for mask in masks:
        sample = subject.open(mask or 0.5, Quality.AUTO if mask else Quality.EXACT)
        if sample.reuse is not None:
            sample.reuse.full = frozenset()
        samples.append(sample)
    return median([cpu_s(partial(subject.runner.forward, samples)) for _ in range(rounds)])


def _expected_s(costs: MaskingCosts, masks: Sequence[float | None]) -> float:
    expected = len(costs.blocks) * costs.compute.start_s
    for mask in masks:
        times = block_times(costs, 1.0, 2, mask or 1.0, Tier.MEMORY)
        expected += sum(block.before + (block.cached if mask else block.full) for block in times)
    return expected


def scenes(costs: MaskingCosts) -> dict[str, Scene]:
    """Size caches by the default settings."""
    size = STEPS * sum(block.tokens * (block.channels + 4) for block in costs.blocks)
    memory = int(SETTINGS.activations_gib * 2**30 / size)
    disk = int(SETTINGS.activations_disk_gib * 2**30 / size)
    found = {}
    for mean in MASKS:
        scene = Scene(mean_mask=mean, templates=100, memory=memory, disk=disk, pixels=SIDE**2)
        found[f"masks of {mean:g}"] = scene
        everywhere = replace(scene, templates=memory)
        found[f"masks of {mean:g}, all in every memory"] = everywhere
    return found


def spread(costs: StepCosts) -> float:
    """Compare what a large mask and a small one add to a step: where all is warm, all there is."""
    small, large = (
        ImageWork(job="", model=MODEL, steps=STEPS, rows=2, pixels=SIDE**2, masked=masked)
        for masked in (0.05, 0.35)
    )
    added = [costs.burden(work, Tier.MEMORY).compute_s for work in (small, large)]
    return added[1] / added[0]


def sustained(scene: Scene, costs: StepCosts, count: int) -> float:
    """Edits a second that the fleet ends when more than enough wait, by fewest requests."""
    jobs = draw(scene, 1e3, count, seed=0)
    Fleet(scene, costs, SCORES[EditRouting.REQUESTS], seed=0).run(jobs)
    ends = sorted(job.done_at for job in jobs)
    first, last = ends[int(WARM_UP * count)], ends[int(0.9 * count)]
    return (0.9 - WARM_UP) * count / (last - first)


def latencies(
    scene: Scene, costs: StepCosts, policy: EditRouting, rate: float, count: int, seeds: int
) -> list[float]:
    """Seconds from arrival to end of every edit once caches are warm."""
    taken: list[float] = []
    for seed in range(1, seeds + 1):
        jobs = draw(scene, rate, count, seed)
        Fleet(scene, costs, SCORES[policy], seed).run(jobs)
        taken += [job.done_at - job.at for job in jobs[int(WARM_UP * count) :]]
    return taken


def compare(name: str, scene: Scene, costs: StepCosts, count: int, seeds: int) -> dict[str, Figure]:
    """Compare the policies at every load."""
    rate = sustained(scene, costs, count)
    figures = {f"{name}: sustained": plain(rate * 3600, "edits/h")}
    for load in LOADS:
        p95 = {
            policy: percentile(latencies(scene, costs, policy, load * rate, count, seeds), 0.95)
            for policy in EditRouting
        }
        ours = p95[EditRouting.PIPELINE]
        figures[f"{name}, load {load:g}: p95"] = plain(ours, "s")
        for other in (EditRouting.REQUESTS, EditRouting.TOKENS):
            saved = 1 - ours / p95[other]
            is_promised = scene.templates > scene.memory
            figure = at_least(saved, SAVED, "share") if is_promised else plain(saved, "share")
            figures[f"{name}, load {load:g}: p95 saved against {other}"] = figure
    return figures


def main(
    quick: bool = typer.Option(False, help="Fewer edits and rounds, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure policies of routing edits. Example: `python -m bench.edit_routing --quick`."""
    torch.set_num_threads(1)
    measured = measured_costs()
    figures = {
        "R2 of what blocks take": plain(measured.compute.r2, ""),
        "R2 of what loads take": plain(measured.load.r2, ""),
        "R2 of steps of whole batches": plain(batch_r2(measured, 2 if quick else 5), ""),
    }
    costs = StepCosts.of(measured, SIDE**2)
    figures["an edit of 0.35 takes of a batch / one of 0.05"] = plain(spread(costs), "ratio")
    for name, scene in scenes(measured).items():
        figures |= compare(name, scene, costs, 1000 if quick else 3000, 2 if quick else 3)
    where = machine(f"torch {torch.__version__}", f"{torch.get_num_threads()} thread")
    raise SystemExit(finish("edit_routing", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
