"""Say on the console what a run, a comparison, or a search showed."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from loadgen.capacity.outcome import Capacity
from loadgen.capacity.search import Trial
from loadgen.compare import Difference
from loadgen.report import Report, summarise


def say(report: Report, paths: Sequence[Path], *, as_json: bool) -> None:
    """Sum up a run, and name the files of its report."""
    if as_json:
        typer.echo(msgspec.json.encode(report))
        return
    console = Console(soft_wrap=True)
    console.print(summarise(report))
    for error, count in report.errors.items():
        console.print(f"  {error}: {count}")
    console.print("Report: " + ", ".join(str(path) for path in paths))


def say_difference(differences: Sequence[Difference], *, as_json: bool) -> None:
    """Lay two runs beside each other."""
    if as_json:
        typer.echo(msgspec.json.encode(differences))
        return
    table = Table("", "before", "after", "change", "")
    for each in differences:
        change = "" if each.change is None else f"{each.change:+.1%}"
        remark = {None: "", True: "beyond chance", False: "may be chance"}[each.is_clear]
        table.add_row(each.name, f"{each.before:.4g}", f"{each.after:.4g}", change, remark)
    Console().print(table)


def tell(trial: Trial) -> None:
    """Say what a trial showed while a search goes on."""
    late = f"{trial.late} of {trial.asked} late"
    Console(stderr=True).print(f"{trial.rate:.3g} requests/s: {late}", highlight=False)


def say_capacity(found: Capacity, path: Path, *, as_json: bool) -> None:
    """Sum up a search."""
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    promise = f"at most {found.max_late:.1%} take longer than {found.slo_s:.2f} s"
    if found.capacity_per_s is None:
        text = f"No capacity between the rates that were tried: {promise}."
    else:
        between = f"{found.low_per_s:.3g} to {found.high_per_s:.3g}"
        text = f"Capacity {found.capacity_per_s:.3g} requests/s ({between}): {promise}."
    Console(soft_wrap=True).print(f"{text}\nTrials: {path}", highlight=False)
