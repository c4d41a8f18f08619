"""Break the engine, leases, routing, allocation and masking in small ways; count what tests miss.

Claims: the tests of an area fail for nine of ten mutants of it. Each mutant is one small change to
one file, tested in a fork of its own until the first test fails. Of the libraries, mutmut leaves
every decorated function alone and cosmic-ray starts a process for each mutant, in the tree at hand.
"""

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import track

from bench.mutate.areas import AREAS, EQUIVALENT, Subject
from bench.mutate.forked import Run
from bench.mutate.lua import lua_mutants
from bench.mutate.mutant import Change, Mutant
from bench.mutate.python import python_changes, python_mutants
from bench.mutate.trial import TestsFail, tried
from bench.parts.report import Figure, at_least, finish, machine, plain

ROOT = Path(__file__).parent.parent
QUICK = 60  #: mutants of all areas at hand
LEAST_KILLED = 0.9


def main(
    quick: bool = typer.Option(False, help=f"{QUICK} mutants, always the same."),
    json: bool = typer.Option(False, help="Only the JSON object."),
    only: str = typer.Option("", help=f"One of {', '.join(AREAS)}, or a file of theirs."),
    processes: int = typer.Option(os.cpu_count() or 1, help="Mutants that are tried at a time."),
) -> None:
    """Look for what tests miss. Example: `python -m bench.mutants --quick --only leases`."""
    areas = {
        subject.path: area
        for area, own in AREAS.items()
        for subject in own
        if only in ("", area, subject.path)
    }
    if not areas:
        raise typer.BadParameter(f"there is no area or file {only!r}, but {', '.join(AREAS)}")
    console = Console(stderr=True, quiet=json)
    subjects = [each for own in AREAS.values() for each in own if each.path in areas]
    for entry in unknown(areas):
        console.print(f"equivalent to nothing: {entry}", soft_wrap=True, markup=False)
    mutants = [(each, mutant) for each in subjects for mutant in _of(each)]
    if quick and len(mutants) > QUICK:
        mutants = random.Random(0).sample(mutants, QUICK)
    try:
        found = _try(mutants, areas, processes, console)
    except TestsFail as error:
        raise SystemExit(str(error)) from error
    raise SystemExit(finish("mutants", figures(found), where=machine(), is_json=json))


def _try(
    mutants: Sequence[tuple[Subject, Mutant]],
    areas: Mapping[str, str],
    processes: int,
    console: Console,
) -> list[tuple[str, Run]]:
    """Try mutants and print those that survive; give the area and the run of each."""
    found = []
    runs = track(
        tried(mutants, ROOT, processes),
        total=len(mutants),
        console=console,
        description="Mutants",
    )
    for mutant, run in runs:
        found.append((areas[mutant.path], run))
        if run.has_passed:
            console.print(f"survived: {mutant}", soft_wrap=True, markup=False)
    return found


def _of(subject: Subject) -> list[Mutant]:
    """Make every mutant of a file that a test could notice."""
    make = lua_mutants if subject.path.endswith(".lua") else python_mutants
    unseen = EQUIVALENT.get(subject.path, {})
    made = make(subject.path, (ROOT / subject.path).read_text())
    return [mutant for mutant in made if mutant.change not in unseen]


def _changes(path: str) -> set[Change]:
    source = (ROOT / path).read_text()
    if path.endswith(".lua"):
        return {mutant.change for mutant in lua_mutants(path, source)}
    return python_changes(source)


def unknown(paths: Iterable[str]) -> list[str]:
    """List what the table of equivalent mutants has of code that has changed since."""
    return [
        f"{path} {scope}: {change}"
        for path in paths
        if (unseen := EQUIVALENT.get(path))
        for scope, change in unseen.keys() - _changes(path)
    ]


def figures(found: Sequence[tuple[str, Run]]) -> dict[str, Figure]:
    """Lay the share of killed mutants beside what was promised, area by area."""
    shown: dict[str, Figure] = {}
    for area in AREAS:
        if runs := [run for of, run in found if of == area]:
            killed = sum(not run.has_passed for run in runs)
            shown[f"{area}: mutants"] = plain(len(runs), "")
            shown[f"{area}: killed"] = at_least(killed / len(runs), LEAST_KILLED, "")
    shown["a mutant takes"] = plain(sum(run.seconds for _, run in found) / len(found), "s")
    return shown


if __name__ == "__main__":
    typer.run(main)
