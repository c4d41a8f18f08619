"""How does a person measure models? `atelier profile` writes what the scheduler decides by."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from cli import show
from cli.stack import models_dir as default_models_dir
from core.errors import ConfigurationError
from core.settings import PROFILE, get_settings
from core.variant import Model
from scheduler.classify import ANY
from scheduler.measured import Family, Measured, joined, read_measured, write_measured
from storage.models import read_models

EXAMPLE = "Example: atelier profile --prompts 200 --output zoo/profile.json"

#: How families are called for people.
TITLES = {
    "sm": "Smaller models: K = 0",
    "ac": "Approximate caching: the best model",
    "all": "All levels",
}


def profile(
    models_dir: Annotated[Path | None, typer.Option(help="One folder for each model.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keeps images made so far, and the profile.")
    ] = None,
    prompts: Annotated[int, typer.Option(min=5, help="Measured at every level.")] = 200,
    remembered: Annotated[
        int, typer.Option(min=5, help="Prompts that leave latents to start from, each repeat.")
    ] = 500,
    output: Annotated[
        Path | None, typer.Option(help="Write here; else where the service reads it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option(help="A minute, not an hour: to see it work. Written to --output only.")
    ] = False,
) -> None:
    """Measure times and quality of every model, and write the profile the scheduler uses.

    Stopped and started again, it goes on where it was. Device, precision and threads are those of
    workers: ATELIER_DEVICE, ATELIER_DTYPE, ATELIER_TORCH_THREADS.
    """
    settings = get_settings()
    folder = (models_dir or default_models_dir(settings)).resolve()
    data = (data_dir or settings.data_dir).resolve()
    sizes = None if quick else (prompts, remembered)
    measured = _measure(_models(folder), folder, data, sizes)
    target = output or (None if quick else data / PROFILE)
    if target:
        write_measured(target, joined(read_measured(target), measured))
        show.err().print(f"Written to {target}", highlight=False)
    if as_json:
        return typer.echo(msgspec.json.encode(measured))
    for table in tables(measured):
        show.out().print(table)


def _models(folder: Path) -> Mapping[str, Model]:
    models = read_models(folder)
    if not models:
        raise ConfigurationError(f"{folder}: no folder with an atelier.json")
    return models


def _measure(
    models: Mapping[str, Model], folder: Path, data: Path, sizes: tuple[int, int] | None
) -> Measured:
    """Measure with so many prompts and remembered ones, or quickly."""
    import torch  # every other command would wait for it

    from zoo.quality.measure import Place, measure
    from zoo.quality.plan import QUICK, Plan

    settings = get_settings()
    torch.set_num_threads(settings.torch_threads)
    place = Place(
        models=folder, work=data / "profile", device=settings.device, dtype=settings.dtype
    )
    plan = QUICK if sizes is None else Plan(prompts=sizes[0], remembered=sizes[1])
    return measure(models, plan, place, show.err())


def tables(measured: Measured) -> Iterator[Table]:
    """Lay out a profile for people."""
    yield _levels(measured)
    for name, family in measured.families.items():
        yield _family(TITLES[name], family)


def _levels(measured: Measured) -> Table:
    """Lay out what each level costs and gives."""
    table = Table("level", "seconds", "right", "right parts", "quality", title="Levels", box=None)
    tau = measured.tau[measured.about.device]
    for name, seconds in sorted(tau.items(), key=lambda item: item[1]):
        judged = measured.judged[name]
        figures = (judged.strict, judged.share, judged.quality)
        table.add_row(name, f"{seconds:.3f}", *(f"{each:.3f}" for each in figures))
    return table


def _family(title: str, family: Family) -> Table:
    """Lay out how many prompts each level is optimal for, and what all prompts make of it."""
    table = Table("level", "optimal for", "quality", title=title, caption=_gain(family), box=None)
    for level in family.levels:
        table.add_row(level, f"{family.shares[level]:.1%}", f"{family.quality[ANY][level]:.3f}")
    return table


def _gain(family: Family) -> str:
    found = family.assignment
    if found is None or found.random <= 0:
        return ""
    text = (
        f"optimal {found.optimal:.3f}, random {found.random:.3f} "
        f"[{found.low:.3f}, {found.high:.3f}]: {found.optimal / found.random - 1:+.1%}"
    )
    other = found.gain_on_other_noise
    return text if other is None else f"{text}; on other noise {other:+.1%}"
