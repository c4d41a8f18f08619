"""What survives each fault, of processes, stores, networks, disks and clocks: a table, by seed.

Scenarios (`bench.fault`) do much at once to a service without an api. Kinds (`bench.nemesis`) do
one thing to a whole one, under clients over HTTP whose history is checked, as Jepsen does.

Claims: every accepted job ends exactly once, with the images that nobody disturbed; none is lost,
stuck or taken back, and no job fails that is not itself at fault; no process ends because something
else did; after each kind of fault all is well again in time.
"""

import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
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
from bench.nemesis.campaign import run_all
from bench.nemesis.kinds.table import KINDS, SHORT
from bench.nemesis.report import figures_of, row_of
from bench.nemesis.trial import Result
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
    quick: bool = typer.Option(False, help="Fewer jobs and faults, and few kinds."),
    json: bool = typer.Option(False, help="Only the JSON object."),
    only: str = typer.Option("", help="Those whose names begin so; `--list` names them."),
    names: bool = typer.Option(False, "--list", help="Name the scenarios and kinds, no more."),
    seed: int = typer.Option(0, help="Of when and whom the faults hit."),
    seeds: int = typer.Option(1, help="How many seeds, from `--seed` on."),
) -> None:
    """Break everything in turn. Example: `python -m bench.faults --quick`."""
    scenarios = [name for name in SCENARIOS if name.startswith(only)]
    few = SHORT if quick and not only else KINDS
    kinds = [KINDS[name] for name in few if name.startswith(only)]
    if not scenarios and not kinds:
        raise typer.BadParameter(f"nothing begins with {only!r}: `--list` names what there is")
    console = Console(stderr=True, quiet=json)
    if names:
        console.print("\n".join([*scenarios, *(kind.name for kind in kinds)]))
        return
    numbers, runs = range(seed, seed + seeds), dict[tuple[str, int], Findings]()
    for name, number in product(scenarios, numbers):
        with tempfile.TemporaryDirectory(prefix="atelier-faults-") as folder:
            found = run(SCENARIOS[name], Path(folder), seed=number, is_quick=quick)
        runs[name, number] = found
        console.log(f"{name}, seed {number}: {found.seconds:.0f} s")
    results = list(run_all(kinds, numbers, console.log))
    table = table_of(runs, results)
    found_all = figures(runs) | figures_of(results)
    raise SystemExit(finish("faults", found_all, where=machine(), is_json=json, table=table))


def table_of(runs: Runs, results: Sequence[Result]) -> Table:
    """Lay out a row a fault and seed; of the counts that must be none, those that are not."""
    table = Table("fault", "seed", "jobs", "what went wrong", "recovery", title="Faults")
    for (name, seed), found in runs.items():
        counts = {word: getattr(found, field) for word, field in NONE.items()}
        wrong = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        recovery = f"{found.recovery_s:.1f} s"
        table.add_row(name, str(seed), str(found.accepted), wrong or "nothing", recovery)
    for result in results:
        table.add_row(*row_of(result))
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
