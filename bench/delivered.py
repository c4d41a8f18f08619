"""Benchmark what plans deliver: goodput of every policy over regimes, in virtual time.

Goodput is the quality of jobs done in time, over all jobs: late ones count nothing. The scheduler's
own loop plans and places (`simulator`), on eight workers with times and loads of SDXL and smaller
models (Argus, Table 2), unless a regime says otherwise. Decisions take 50 ms of virtual time; in
the first seed of each regime every model takes a tenth more or less than its profile says. Seeds
from 0 on judge; those from 1,000 on are for tuning (`--tuning`).

The whole of it, ten seeds of twenty minutes, takes hours of CPU time; `--regimes`, `--policies`
and `--seeds` take a part, and `--quick` two seeds of five minutes.

    python -m bench.delivered --quick
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import typer
from rich.table import Table

from bench.parts.delivered_worlds import CONSTANT, MODELS, REGIMES
from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from core.log import configure
from simulator.outcome import PolicyOutcome
from simulator.run import simulate
from simulator.world import World

OURS = "atelier"
POLICIES = (
    OURS,
    "program",
    "ac",
    "argus",
    "sommelier",
    "clipper-ht",
    "clipper-ha",
    "proteus",
    "infaas",
    "nirvana",
)
TUNING = 1000  #: seeds from here on
SECONDS, QUICK_S = 1200.0, 300.0
BEHIND, AHEAD = 0.005, 0.03  #: of the best policy in a regime, of any single one over all
EVERY_S = 300.0  #: one load, where the load is constant
PROMISE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one policy delivered in one world."""

    goodput: float
    late: float
    quality: float
    loads_each: float  #: of models, in `EVERY_S`
    promised: float  #: quality that plans promised above what was delivered; nan: they did not
    deciding_s: float  #: CPU time of the middle decision


def run(world: World, policy: str) -> Run:
    """Simulate it."""
    found = simulate(world, policy)
    made = ~np.isnan(found.ended_s)
    return Run(
        goodput=found.goodput,
        late=float(found.was_late.mean()),
        quality=float(np.nanmean(found.quality[made])) if made.any() else 0.0,
        loads_each=found.loads / (world.workload.duration_s / EVERY_S),
        promised=_promised(found),
        deciding_s=float(np.median([note.deciding_s for note in found.plans])),
    )


def _promised(found: PolicyOutcome) -> float:
    """Compare the quality of each plan with that of the jobs that came while it was in force."""
    known = [(note.at_s, note.quality) for note in found.plans if note.quality is not None]
    if not known or np.isnan(found.quality).all():
        return float("nan")
    at = np.array([moment for moment, _ in known])
    plan = np.clip(np.searchsorted(at, found.at_s, side="right") - 1, 0, None)
    promised = np.array([quality for _, quality in known])[plan]
    return float(np.nanmean(promised - found.quality))


def worlds(regime: str, seeds: Sequence[int], seconds: float) -> Iterator[World]:
    """Make the worlds of a regime; in the first one costs are misjudged."""
    for row, seed in enumerate(seeds):
        made = REGIMES[regime](seed, seconds)
        wrong = {name: 0.9 if i % 2 else 1.1 for i, name in enumerate(MODELS)}
        yield replace(made, misjudged=wrong) if row == 0 else made


Means = Mapping[str, Mapping[str, Run]]  #: regime -> policy -> mean of its runs


def measure(
    regimes: Sequence[str], policies: Sequence[str], seeds: Sequence[int], seconds: float
) -> Means:
    """Run everything, and tell how far it is."""
    found: dict[str, dict[str, Run]] = {}
    for regime in regimes:
        found[regime] = {}
        for policy in policies:
            began = time.process_time()
            runs = [run(world, policy) for world in worlds(regime, seeds, seconds)]
            mean = found[regime][policy] = _mean(runs)
            spent = time.process_time() - began
            told = f"goodput {mean.goodput:.4f}, late {mean.late:.4f}"
            told += f", loads {mean.loads_each:.1f} in {EVERY_S:.0f} s"
            told += f", promised {mean.promised:+.4f}, {1e3 * mean.deciding_s:.0f} ms"
            sys.stderr.write(f"{regime:24s} {policy:12s} {told} ({spent:.0f} CPU s)\n")
            sys.stderr.flush()
    return found


def _mean(runs: Sequence[Run]) -> Run:
    names = Run.__dataclass_fields__
    return Run(**{name: float(np.mean([getattr(each, name) for each in runs])) for name in names})


def figures_of(found: Means) -> dict[str, Figure]:
    """Hold our policy against the others, in each regime and over all."""
    figures: dict[str, Figure] = {}
    for regime, by_policy in found.items():
        ours, others = by_policy[OURS], {k: v for k, v in by_policy.items() if k != OURS}
        figures[f"{regime}: goodput"] = plain(ours.goodput, "")
        if others:
            best = max(others, key=lambda name: others[name].goodput)
            ahead = ours.goodput - others[best].goodput
            figures[f"{regime}: ahead of {best}"] = at_least(ahead, -BEHIND, "goodput")
        figures[f"{regime}: late"] = plain(ours.late, "of jobs")
        if regime in CONSTANT:
            loads = at_most(ours.loads_each, 1.0, "in 5 min")
            figures[f"{regime}: loads"] = loads
        figures[f"{regime}: promised above delivered"] = at_most(
            abs(ours.promised), PROMISE, "quality"
        )
    for policy in [name for name in next(iter(found.values())) if name != OURS]:
        gained = [row[OURS].goodput - row[policy].goodput for row in found.values()]
        figures[f"all regimes: ahead of {policy}"] = at_least(
            float(np.mean(gained)), AHEAD, "goodput"
        )
    figures["a decision"] = plain(
        1e3 * max(row[OURS].deciding_s for row in found.values()), "ms of CPU"
    )
    return figures


def table_of(found: Means) -> Table:
    """Show goodput, policy beside policy."""
    policies = list(next(iter(found.values())))
    table = Table("mean goodput", *policies, title="bench.delivered")
    for regime, row in found.items():
        table.add_row(regime, *(f"{row[policy].goodput:.3f}" for policy in policies))
    means = [float(np.mean([row[p].goodput for row in found.values()])) for p in policies]
    late = [float(np.mean([row[p].late for row in found.values()])) for p in policies]
    table.add_row("mean", *(f"{mean:.3f}" for mean in means))
    table.add_row("late", *(f"{share:.3f}" for share in late))
    return table


def main(
    regimes: str = typer.Option("", help="Some of them, separated by commas."),
    policies: str = typer.Option(",".join(POLICIES), help="Some of them, separated by commas."),
    seeds: int = typer.Option(10, min=1, help="Runs of each policy in each regime."),
    seconds: float = typer.Option(SECONDS, min=60.0, help="Of each run."),
    tuning: bool = typer.Option(False, help="Take seeds that judge nothing."),
    quick: bool = typer.Option(False, help="Two seeds of five minutes."),
    json: bool = typer.Option(False, "--json", help="Show the JSON object alone."),
) -> None:
    """Benchmark what plans deliver. Example: python -m bench.delivered --regimes light."""
    configure("warning", is_json=False)
    if quick:
        seeds, seconds = 2, QUICK_S
    chosen = [name.strip() for name in regimes.split(",") if name.strip()] or list(REGIMES)
    if unknown := set(chosen) - REGIMES.keys():
        raise typer.BadParameter(f"{min(unknown)!r} is none of: {', '.join(REGIMES)}")
    first = TUNING if tuning else 0
    found = measure(chosen, policies.split(","), range(first, first + seeds), seconds)
    is_compared = OURS in policies.split(",")
    code = finish(
        "delivered",
        figures_of(found) if is_compared else {},
        where=machine(f"{seeds} seeds of {seconds:.0f} s"),
        is_json=json,
        table=table_of(found),
    )
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
