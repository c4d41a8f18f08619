"""`make bench`: run every benchmark in a process of its own; print one table."""

import json
import subprocess
import sys
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

#: No claim of their own, or one that is run by hand: it needs CUDA, the network or an hour.
SKIPPED = {"__init__", "__main__", "instances", "shifting", "gpu", "gpu_adapters"}
SKIPPED |= {"conformance", "gpu_report", "mutants"}


def names() -> list[str]:
    """List the benches: every module beside this one that makes a claim."""
    return sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in SKIPPED)


def run_one(name: str, *, is_quick: bool) -> dict[str, dict[str, object]]:
    """Run `bench.<name>` and return its figures."""
    command = [sys.executable, "-m", f"bench.{name}", "--json", *(["--quick"] if is_quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"bench.{name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    figures: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])["figures"]
    return figures


def main(quick: bool = typer.Option(False, help="Fewer samples, wider noise.")) -> None:
    """Measure everything this project claims. Example: `python -m bench --quick`."""
    console = Console()
    table = Table("bench", "figure", "value", "bar", "ok", title="Claims")
    has_missed = False
    for name in names():
        console.log(f"bench.{name}")
        for figure, row in run_one(name, is_quick=quick).items():
            has_missed |= row["ok"] is False
            verdict = "" if row["ok"] is None else ("yes" if row["ok"] else "MISSED")
            value = f"{row['value']:.4g} {row['unit']}"
            table.add_row(name, figure, value, str(row["bar"] or ""), verdict)
    console.print(table)
    raise SystemExit(1 if has_missed else 0)


if __name__ == "__main__":
    typer.run(main)
