"""Command `atelier profile`: measure models and write the scheduler's profile."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from catalog.models import served_models
from classifier.score_curve import read_worth
from cli.client import show
from cli.stack.services import models_dir as default_models_dir
from core.model import Model
from core.settings import PROFILE, PROMPTS, SCORER, get_settings
from core.uploads.lora import LORAS
from scheduler.profile.profile_file import (
    LevelFamily,
    Measured,
    joined,
    read_measured,
    with_bound,
    write_measured,
)
from scheduler.routing.classify import ANY

if TYPE_CHECKING:
    from profiling.measure import MeasurementPlace

EXAMPLE = "Example: atelier profile --prompts-from prompts.jsonl --prompts 100 --remembered 200"

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
    prompts_from: Annotated[
        Path | None,
        typer.Option(help='JSON lines, each {"prompt": ...}; else the file beside the models.'),
    ] = None,
    scorer: Annotated[
        Path | None, typer.Option(help="A CLIP model and its curve; else the service's.")
    ] = None,
    prompts: Annotated[int, typer.Option(min=5, help="Measured at every level.")] = 200,
    remembered: Annotated[
        int, typer.Option(min=5, help="Prompts that leave latents to start from, each repeat.")
    ] = 500,
    loras: Annotated[
        Path | None,
        typer.Option(help="A folder of LoRAs; else those that the service here keeps in files."),
    ] = None,
    only_loras: Annotated[
        bool, typer.Option("--only-loras", help="Leave the rest of the profile as it is.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Write here; else where the service reads it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option(help="A minute, not an hour: to see it work. Written to --output only.")
    ] = False,
) -> None:
    """Measure times and quality of every model, and write the profile the scheduler uses.

    The first prompts of the file are measured, those after them remembered. A scorer of images
    says what each is worth: the curve beside it turns its scores into qualities (`worth.json`).
    Of each LoRA, how long images may do without it: workers start them while it is fetched.
    Stopped and started again, it goes on where it was. Device, precision and threads are those of
    workers: ATELIER_DEVICE, ATELIER_DTYPE, ATELIER_TORCH_THREADS.
    """
    settings = get_settings()
    folder = (models_dir or default_models_dir(settings)).resolve()
    data = (data_dir or settings.data_dir).resolve()
    asked = prompts_from or folder.parent / PROMPTS
    judging = scorer or settings.scorer_dir or folder.parent / SCORER
    models, place = _models(folder), _place(folder, data)
    target = output or (None if quick else data / PROFILE)
    shipped = folder.parent / PROFILE  # one of LoRAs alone would hide it
    measured = read_measured(target if target and target.exists() else shipped)
    if not only_loras:
        sizes = None if quick else (prompts, remembered)
        measured = joined(measured, _measure(models, place, sizes, asked, judging))
    _write(target, measured)
    kept = (loras or data / "objects" / LORAS).resolve()
    for more in _with_bounds(measured, models, place, kept, asked, is_quick=quick):
        _write(target, measured := more)  # each may take minutes
    if target:
        show.err().print(f"Written to {target}", highlight=False)
    if as_json:
        return typer.echo(msgspec.json.encode(measured))
    for table in tables(measured):
        show.out().print(table)


def _models(folder: Path) -> Mapping[str, Model]:
    show.show_ignored(folder)
    return {n: each for n, each in served_models(folder).items() if not each.is_upscaler}


def _place(models: Path, data: Path) -> "MeasurementPlace":
    """Say where models run, as workers have them run."""
    import torch  # every other command would wait for it

    from profiling.measure import MeasurementPlace
    from worker.trials.device_defaults import settled

    settings = settled(get_settings())
    torch.set_num_threads(settings.torch_threads)
    return MeasurementPlace(
        models=models, work=data / "profile", device=settings.device, dtype=settings.dtype
    )


def _measure(
    models: Mapping[str, Model],
    place: "MeasurementPlace",
    sizes: tuple[int, int] | None,
    asked: Path,
    judging: Path,
) -> Measured:
    """Measure with so many prompts and remembered ones, or quickly."""
    from profiling.measure import measure
    from profiling.plan import QUICK, MeasurementPlan
    from profiling.prompts import read_prompts, sets_of
    from profiling.score import judge_by
    from worker.diffusion.scorer import Scorer

    plan = QUICK if sizes is None else MeasurementPlan(prompts=sizes[0], remembered=sizes[1])
    sets = sets_of(plan, read_prompts(asked))
    judge = judge_by(Scorer(judging), read_worth(judging), sets.measured)
    return measure(models, plan, sets, judge, place, show.err())


def _with_bounds(
    measured: Measured,
    models: Mapping[str, Model],
    place: "MeasurementPlace",
    loras: Path,
    asked: Path,
    *,
    is_quick: bool,
) -> Iterator[Measured]:
    """Measure the LoRAs that a profile does not know; give it with one more each time."""
    from profiling.lora_bounds import COMPARED, measure_bounds
    from profiling.prompts import read_prompts

    prompts = read_prompts(asked)[: 1 if is_quick else COMPARED]
    found = measure_bounds(models, place, loras, measured.bounds, prompts, show.err())
    for bound in found:
        measured = with_bound(measured, bound.model, bound.sha256, bound.skipped)
        yield measured


def _write(target: Path | None, measured: Measured) -> None:
    if target:
        write_measured(target, measured)


def tables(measured: Measured) -> Iterator[Table]:
    """Lay out a profile for people."""
    if measured.judged:
        yield _levels(measured)
    for name, family in measured.families.items():
        yield _family(TITLES[name], family)
    if measured.bounds:
        yield _bounds(measured)


def _levels(measured: Measured) -> Table:
    """Lay out what each level costs and gives."""
    table = Table("level", "seconds", "right", "right parts", "quality", title="Levels", box=None)
    tau = measured.tau[measured.about.device]
    for name, seconds in sorted(tau.items(), key=lambda item: item[1]):
        judged = measured.judged[name]
        figures = (seconds, judged.strict, judged.share, judged.quality)
        table.add_row(name, *("" if each is None else f"{each:.3f}" for each in figures))
    return table


def _family(title: str, family: LevelFamily) -> Table:
    """Lay out how many prompts each level is optimal for, and what all prompts make of it."""
    table = Table("level", "optimal for", "quality", title=title, caption=_gain(family), box=None)
    for level in family.levels:
        table.add_row(level, f"{family.shares[level]:.1%}", f"{family.quality[ANY][level]:.3f}")
    return table


def _bounds(measured: Measured) -> Table:
    """Lay out how long images may do without each LoRA."""
    table = Table("model", "LoRA, by SHA-256", "of 50 steps", title="Without LoRAs", box=None)
    for model, bounds in measured.bounds.items():
        for sha256, skipped in bounds.items():
            table.add_row(model, sha256[:12], str(skipped))
    return table


def _gain(family: LevelFamily) -> str:
    found = family.assignment
    if found is None or found.random <= 0:
        return ""
    text = (
        f"optimal {found.optimal:.3f}, random {found.random:.3f} "
        f"[{found.low:.3f}, {found.high:.3f}]: {found.optimal / found.random - 1:+.1%}"
    )
    other = found.gain_on_other_noise
    return text if other is None else f"{text}; on other noise {other:+.1%}"
