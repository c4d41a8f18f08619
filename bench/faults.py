"""What survives each fault, of processes and of the store: a table of scenarios, by seed.

Claims: every accepted job ends exactly once, with the images of the claim that won; none is stuck,
and no job fails that is not itself at fault; no worker ends because something else did.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from bench.fault.away_objects import AwayObjects
from bench.fault.findings import Findings
from bench.fault.full_store import FullStore
from bench.fault.garbage import Garbage
from bench.fault.hung_steps import HungSteps
from bench.fault.lost_encoders import LostEncoders
from bench.fault.lost_indexes import LostIndexes
from bench.fault.poison import Poison
from bench.fault.restarts import Restarts
from bench.fault.scenario import Scenario, run
from bench.fault.storm import Storm
from bench.parts.report import Figure, at_most, finish, machine, plain

#: By the name of `--only`.
SCENARIOS: dict[str, type[Scenario]] = {
    "storm": Storm,
    "indexes": LostIndexes,
    "garbage": Garbage,
    "restarts": Restarts,
    "poison": Poison,
    "encoders": LostEncoders,
    "hang": HungSteps,
    "objects": AwayObjects,
    "memory": FullStore,
}

#: What must be none: its word, and the field.
NONE = {
    "lost": "lost",
    "twice": "ended_again",
    "stuck": "stuck",
    "innocents failed": "innocents_failed",
    "stale": "stale",
    "broken": "broken",
    "worker exits": "worker_exits",
    "contradictions": "contradictions",
}

Runs = Mapping[tuple[str, int], Findings]  #: by scenario and seed


def main(
    quick: bool = typer.Option(False, help="Fewer jobs and faults."),
    json: bool = typer.Option(False, help="Only the JSON object."),
    only: str = typer.Option("", help=f"One of {', '.join(SCENARIOS)}."),
    seed: int = typer.Option(0, help="Of when and whom the faults hit."),
    seeds: int = typer.Option(1, help="How many seeds, from `--seed` on."),
) -> None:
    """Break everything in turn. Example: `python -m bench.faults --quick`."""
    if only and only not in SCENARIOS:
        raise typer.BadParameter(f"there is no scenario {only!r}, but {', '.join(SCENARIOS)}")
    console = Console(stderr=True, quiet=json)
    runs: dict[tuple[str, int], Findings] = {}
    for name in [only] if only else SCENARIOS:
        for number in range(seed, seed + seeds):
            with tempfile.TemporaryDirectory(prefix="atelier-faults-") as folder:
                found = run(SCENARIOS[name], Path(folder), seed=number, is_quick=quick)
            runs[name, number] = found
            console.log(f"{name}, seed {number}: {found.seconds:.0f} s")
    where = machine()
    raise SystemExit(
        finish("faults", figures(runs), where=where, is_json=json, table=table_of(runs))
    )


def table_of(runs: Runs) -> Table:
    """Lay out a row a scenario and seed; of the counts that must be none, those that are not."""
    table = Table("scenario", "seed", "jobs", "what went wrong", "recovery", title="Faults")
    for (name, seed), found in runs.items():
        counts = {word: getattr(found, field) for word, field in NONE.items()}
        wrong = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        recovery = f"{found.recovery_s:.1f} s"
        table.add_row(name, str(seed), str(found.accepted), wrong or "nothing", recovery)
    return table


def figures(runs: Runs) -> dict[str, Figure]:
    """Lay the findings of all seeds beside what was promised: sums, and the longest recovery."""
    found: dict[str, Figure] = {}
    for name in dict.fromkeys(name for name, _ in runs):
        seeds = [each for (scenario, _), each in runs.items() if scenario == name]
        found[f"{name}: accepted"] = plain(sum(each.accepted for each in seeds), "")
        for word, field in NONE.items():
            total = sum(getattr(each, field) for each in seeds)
            found[f"{name}: {word}"] = at_most(total, 0, "")
        if deaths := max(each.deaths for each in seeds):
            found[f"{name}: worker deaths"] = plain(deaths, "")
        found[f"{name}: recovery"] = plain(max(each.recovery_s for each in seeds), "s")
    return found


if __name__ == "__main__":
    typer.run(main)
