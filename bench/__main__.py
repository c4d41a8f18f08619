"""`make bench`: run every benchmark in a process of its own; print one table."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

#: No claim of their own, or one that is run by hand: it needs CUDA, the network or an hour.
SKIPPED = {"__init__", "__main__", "gpu", "gpu_adapters"}
SKIPPED |= {"conformance", "gpu_report", "mutants", "soak"}
#: Characters of what a bench that failed said last.
LAST_CHARS = 2000

Figures = dict[str, dict[str, object]]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What all benches have told, and which have not."""

    figures: dict[str, Figures] = field(default_factory=dict)  #: by bench
    failed: list[str] = field(default_factory=list)

    @property
    def has_missed(self) -> bool:
        """Tell whether anything that was promised does not hold."""
        return any(row["ok"] is False for rows in self.figures.values() for row in rows.values())


def names() -> list[str]:
    """List the benches: every module beside this one that makes a claim."""
    return sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in SKIPPED)


def run_one(name: str, *, is_quick: bool) -> Figures:
    """Run `bench.<name>` and return its figures.

    Raises:
        RuntimeError: it told none; says how it ended.
    """
    command = [sys.executable, "-m", f"bench.{name}", "--json", *(["--quick"] if is_quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.stdout.splitlines()[-1:] if done.returncode in (0, 1) else []
    try:
        figures: Figures = json.loads("".join(told))["figures"]
    except (LookupError, ValueError) as error:
        said = done.stderr[-LAST_CHARS:]
        raise RuntimeError(f"it ended with {done.returncode}:\n{said}") from error
    return figures


def run_all(benches: Iterable[str], run: Callable[[str], Figures], console: Console) -> Outcome:
    """Run benches one after another; one that fails keeps none of the others from theirs."""
    outcome = Outcome()
    for name in benches:
        console.log(f"bench.{name}")
        try:
            outcome.figures[name] = run(name)
        except (Exception, SystemExit) as error:  # whatever it is, others have claims too
            console.log(f"bench.{name} failed: {error}", markup=False)
            outcome.failed.append(name)
    return outcome


def table_of(outcome: Outcome) -> Table:
    """Lay out all figures beside their bars, and name the benches without any."""
    table = Table("bench", "figure", "value", "bar", "ok", title="Claims")
    for name, rows in outcome.figures.items():
        for figure, row in rows.items():
            verdict = "" if row["ok"] is None else ("yes" if row["ok"] else "MISSED")
            value = f"{row['value']:.4g} {row['unit']}"
            table.add_row(name, figure, value, str(row["bar"] or ""), verdict)
    for name in outcome.failed:
        table.add_row(name, "", "", "", "FAILED")
    return table


def main(quick: bool = typer.Option(False, help="Fewer samples, wider noise.")) -> None:
    """Measure everything this project claims. Example: `python -m bench --quick`."""
    console = Console()
    outcome = run_all(names(), partial(run_one, is_quick=quick), console)
    console.print(table_of(outcome))
    raise SystemExit(1 if outcome.has_missed or outcome.failed else 0)


if __name__ == "__main__":
    typer.run(main)
