"""Break the engine, leases, routing, allocation and masking in small ways; count what tests miss.

Claims: the tests of an area fail for nine of ten mutants of it. Each mutant is one small change to
one file, tested in a fork of its own until the first test fails. Of the libraries, mutmut leaves
every decorated function alone and cosmic-ray starts a process for each mutant, in the tree at hand.
"""

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import track

from bench.mutate.areas import AREAS, EQUIVALENT, Subject
from bench.mutate.forked import ForkedTests, Limits, Run, copy_tree
from bench.mutate.lua import lua_mutants
from bench.mutate.mutant import Mutant
from bench.mutate.python import python_mutants
from bench.parts.report import Figure, at_least, finish, machine, plain

ROOT = Path(__file__).parent.parent
QUICK = 60  #: mutants of all areas at hand
LEAST_KILLED = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One mutant, and what its tests made of it."""

    area: str
    mutant: Mutant
    run: Run


def main(
    quick: bool = typer.Option(False, help=f"{QUICK} mutants, always the same."),
    json: bool = typer.Option(False, help="Only the JSON object."),
    only: str = typer.Option("", help=f"One of {', '.join(AREAS)}."),
) -> None:
    """Look for what tests miss. Example: `python -m bench.mutants --quick --only leases`."""
    if only and only not in AREAS:
        raise typer.BadParameter(f"there is no area {only!r}, but {', '.join(AREAS)}")
    console = Console(stderr=True, quiet=json)
    subjects = {area: AREAS[area] for area in ([only] if only else AREAS)}
    every = [(area, each, m) for area, own in subjects.items() for each in own for m in _of(each)]
    for entry in _unknown(subjects):
        console.print(f"equivalent to nothing: {entry}", soft_wrap=True, markup=False)
    chosen = (
        sorted(random.Random(0).sample(range(len(every)), QUICK)) if quick else range(len(every))
    )
    with tempfile.TemporaryDirectory(prefix="atelier-mutants-") as folder:
        tests = ForkedTests(Path(folder))
        copy_tree(ROOT, tests.root)
        tried = []
        for each in _try([every[i] for i in chosen], tests, console):
            tried.append(each)
            if each.run.has_passed:
                console.print(f"survived: {each.mutant}", soft_wrap=True, markup=False)
    raise SystemExit(finish("mutants", figures(tried), where=machine(), is_json=json))


def _made(subject: Subject) -> list[Mutant]:
    make = lua_mutants if subject.path.endswith(".lua") else python_mutants
    return make(subject.path, (ROOT / subject.path).read_text())


def _of(subject: Subject) -> list[Mutant]:
    """Make every mutant of a file that a test could notice."""
    unseen = EQUIVALENT.get(subject.path, {})
    return [mutant for mutant in _made(subject) if mutant.change not in unseen]


def _unknown(subjects: Mapping[str, Sequence[Subject]]) -> list[str]:
    """List what the table of equivalent mutants has of code that has changed since."""
    return [
        f"{subject.path} {scope}: {change}"
        for own in subjects.values()
        for subject in own
        for scope, change in EQUIVALENT.get(subject.path, {}).keys()
        - {mutant.change for mutant in _made(subject)}
    ]


def _try(
    chosen: Sequence[tuple[str, Subject, Mutant]], tests: ForkedTests, console: Console
) -> Iterator[Tried]:
    """Run the tests of each mutant, after those of the code as it is."""
    subjects = {subject.path: subject for _, subject, _ in chosen}
    tests.prepare(sorted({name for subject in subjects.values() for name in subject.tests}))
    limits = {path: _limits(subject, tests) for path, subject in subjects.items()}
    for area, subject, mutant in track(chosen, console=console, description="Mutants"):
        with tests.changed(mutant.path, mutant.source):
            run = tests.run(_arguments(subject), limits[subject.path])
        yield Tried(area=area, mutant=mutant, run=run)


def _limits(subject: Subject, tests: ForkedTests) -> Limits:
    """Run the tests of a file as it is."""
    run = tests.run(_arguments(subject))
    if not run.has_passed:
        raise SystemExit(f"tests of {subject.path} fail as it is:\n{tests.log.read_text()[-2000:]}")
    return run.limits()


def _arguments(subject: Subject) -> list[str]:
    return [*subject.tests, *(("-k", subject.only) if subject.only else ())]


def figures(tried: Sequence[Tried]) -> dict[str, Figure]:
    """Lay the share of killed mutants beside what was promised, area by area."""
    found: dict[str, Figure] = {}
    for area in dict.fromkeys(each.area for each in tried):
        runs = [each.run for each in tried if each.area == area]
        killed = sum(not run.has_passed for run in runs)
        found[f"{area}: mutants"] = plain(len(runs), "")
        found[f"{area}: killed"] = at_least(killed / len(runs), LEAST_KILLED, "")
    found["a mutant takes"] = plain(sum(each.run.seconds for each in tried) / len(tried), "s")
    return found


if __name__ == "__main__":
    typer.run(main)
