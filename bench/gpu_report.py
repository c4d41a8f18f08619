"""Test and measure on one GPU within nine minutes, and write docs/gpu-figures.md.

Each part is a process that ends by its time; what it leaves to the next ones they may use. What
does not fit, or fails, is written down as not run, with its reason.

    make gpu                                    one GPU
    make gpu DRY=1                              the same code with tiny models, on a CPU
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer
from rich.console import Console

from bench.on_gpu import needs
from bench.on_gpu.part import Outcome, Part, preload, run
from bench.on_gpu.write import write
from bench.parts.report import Figure, finish, machine

ROOT = Path(__file__).parent.parent
UNHURRIED = 10  #: times of a dry run: what else runs on its machine is not ours to say

_IMAGES = ("one image, engine", "eight in flight, engine", "one image, stock")
_WARMING = ("first images, engine", "first images, stock")

#: In this order; together 490 s, so that installing wheels and writing fit in nine minutes.
PARTS = (
    Part(
        title="As it is",
        module="bench.on_gpu.in_flight",
        budget_s=70,
        figures=(*_IMAGES, "batch of eight, stock", *_WARMING),
    ),
    Part(
        title="tests/gpu",
        module="bench.on_gpu.gpu_tests",
        budget_s=110,
        figures=("tests passed", "tests skipped", "tests failed"),
        compiles=True,
    ),
    Part(
        title="Masked edits",
        module="bench.on_gpu.edits",
        budget_s=75,
        figures=(
            "edit, stock",
            "edit, engine, in full",
            "edit, engine, mask 0.11",
            "edit, engine, mask 0.2",
            "eight edits, engine, in full",
            "eight edits, engine, mask 0.11",
        ),
    ),
    Part(
        title="LoRA and ControlNet",
        module="bench.on_gpu.adapters",
        budget_s=65,
        figures=tuple(
            f"{case}, {which}"
            for case in ("base", "+ 1 LoRA", "+ 1 ControlNet")
            for which in ("stock", "engine", "stock / engine")
        ),
    ),
    Part(
        title="Compiled",
        module="bench.on_gpu.in_flight",
        budget_s=170,
        figures=(*_IMAGES, *_WARMING),
        compiles=True,
    ),
)


def main(
    dry: bool = typer.Option(False, help="Tiny models on a CPU; every part takes what it takes."),
    only: list[str] = typer.Option([], help="Titles of parts; all of them otherwise."),
    quick: bool = typer.Option(False, help="The first part alone, if none is named."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object, beside the report."),
    to: Path = typer.Option(ROOT / "docs", help="A folder for the report."),
) -> None:
    """Measure on a GPU. Example: `python -m bench.gpu_report --dry --to bench-samples`."""
    console = Console(stderr=True, soft_wrap=True, quiet=as_json)
    if problem := needs.packages() or (None if dry else needs.device()):
        raise SystemExit(problem)
    parts = chosen(only, is_quick=quick)
    no_compiler = None if dry else needs.compiler()
    if no_compiler:
        console.print(f"Nothing is compiled: {no_compiler}")
    where = machine(*_versions(), "CPU: a dry run" if dry else _gpu())
    outcomes: list[Outcome] = []
    for outcome in run_all(parts, console, no_compiler, is_dry=dry):
        outcomes.append(outcome)
        console.print(f"Written: {write(outcomes, where, to, is_dry=dry)}")
    raise SystemExit(finish("gpu_report", _named(outcomes), where=where, is_json=as_json))


def chosen(titles: Sequence[str], *, is_quick: bool) -> Sequence[Part]:
    """Choose parts by their titles; where none is named all, or the first for a quick run.

    Raises:
        typer.BadParameter: no part is called so.
    """
    if unknown := set(titles) - {part.title for part in PARTS}:
        raise typer.BadParameter(f"no part is called {', '.join(sorted(unknown))}")
    if not titles:
        return PARTS[:1] if is_quick else PARTS
    return [part for part in PARTS if part.title in titles]


def run_all(
    parts: Sequence[Part], console: Console, no_compiler: str | None, *, is_dry: bool
) -> Iterator[Outcome]:
    """Run parts one after the other, each until the budgets so far are used up."""
    if is_dry:
        preload(parts)
    ends_at = time.monotonic()
    for part in parts:
        ends_at += part.budget_s * (UNHURRIED if is_dry else 1)
        if part.compiles and no_compiler:
            yield Outcome(part=part, why_not=no_compiler)
            continue
        limit_s = ends_at - time.monotonic()
        console.print(f"{part.title}: at most {limit_s:.0f} s ...")
        outcome = run(part, limit_s, is_dry=is_dry)
        console.print(f"  {outcome.seconds:.0f} s. {outcome.why_not or ''}")
        yield outcome


def _named(outcomes: Sequence[Outcome]) -> dict[str, Figure]:
    return {
        f"{outcome.part.title}: {name}": figure
        for outcome in outcomes
        for name, figure in outcome.figures.items()
    }


def _versions() -> list[str]:
    import diffusers
    import torch

    return [f"torch {torch.__version__}", f"diffusers {diffusers.__version__}"]


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name()


if __name__ == "__main__":
    typer.run(main)
