"""Benchmark what plans deliver: goodput of every policy over regimes, in virtual time.

Goodput is the quality of jobs done in time, over all jobs: late ones count nothing. The scheduler's
own loop plans and places (`simulator`), on eight workers with times and loads of SDXL and smaller
models (Argus, Table 2), unless a regime says otherwise. Decisions take 50 ms of virtual time; in
the first seed of each regime every model takes a tenth more or less than its profile says. Seeds
from 0 on judge; those from 1,000 on are for tuning (`--tuning`).

The whole of it, ten seeds of twenty minutes, takes hours of CPU time; `--regimes`, `--policies`
and `--seeds` take a part, and `--quick` two seeds of five minutes. Runs go side by side (`--jobs`),
all policies of a seed before the next seed. `--kept` names a file that each run is added to as it
ends: what it holds is not made again (delete it when a policy has changed), and with `--jobs 0` is
summed up alone, over the worlds that all policies have been in.

    python -m bench.delivered --quick
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import typer
from rich.table import Table

from bench.parts.delivered_runs import Run, Runs, Trial, complete, mean, run_all
from bench.parts.delivered_worlds import CONSTANT, REGIMES
from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from core.log import configure

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
PROMISE = 0.01


Means = Mapping[str, Mapping[str, Run]]  #: regime -> policy -> mean of its runs


def means_of(runs: Mapping[Trial, Run], policies: Sequence[str]) -> Means:
    """Average over the seeds that all policies have been through."""
    rows = complete(runs, policies)
    regimes = dict.fromkeys(trial.regime for trial in rows)
    return {
        regime: {
            policy: mean([r for t, r in rows.items() if (t.regime, t.policy) == (regime, policy)])
            for policy in policies
        }
        for regime in regimes
    }


def measure(trials: Sequence[Trial], kept: Path | None, jobs: int) -> Runs:
    """Run everything, and tell how far it is."""
    found: Runs = {}
    for found in run_all(trials, kept, jobs):
        sys.stderr.write(f"\r{len(found)} of {len(trials)} runs")
        sys.stderr.flush()
    sys.stderr.write("\n")
    return found


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
    jobs: int = typer.Option(1, min=0, help="Runs side by side; 0: none, only what is kept."),
    kept: Path | None = typer.Option(None, help="A file of runs: read, and added to."),
    json: bool = typer.Option(False, "--json", help="Show the JSON object alone."),
) -> None:
    """Benchmark what plans deliver. Example: python -m bench.delivered --regimes light."""
    configure("warning", is_json=False)
    if quick:
        seeds, seconds = 2, QUICK_S
    chosen = [name.strip() for name in regimes.split(",") if name.strip()] or list(REGIMES)
    if unknown := set(chosen) - REGIMES.keys():
        raise typer.BadParameter(f"{min(unknown)!r} is none of: {', '.join(REGIMES)}")
    first, some = TUNING if tuning else 0, policies.split(",")
    trials = [
        Trial(regime=r, policy=p, seed=seed, seconds=seconds, is_misjudged=seed == first)
        for seed in range(first, first + seeds)
        for r in chosen
        for p in some
    ]
    runs = measure(trials, kept, jobs)
    found = means_of(runs, some)
    if not found:
        raise typer.BadParameter("no world has been run with every policy yet")
    is_compared = OURS in some
    code = finish(
        "delivered",
        figures_of(found) if is_compared else {},
        where=machine(f"{len(runs)} of {len(trials)} runs of {seconds:.0f} s"),
        is_json=json,
        table=table_of(found),
    )
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
