"""Measure a profile: times, images, judgements, tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from core.levels.level import Level, levels_of
from core.model import Model
from profiling import cost, score
from profiling.chunks import Chunks, digest
from profiling.generate import ImageGenerator
from profiling.plan import MeasurementPlan
from profiling.prompts import PromptSets
from profiling.record import Part, record
from profiling.times import time_model
from scheduler.profile.profile_file import Measured
from worker.families.load import load
from worker.trials.device_defaults import device_type


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementPlace:
    """Where models are and where they run."""

    #: One folder for each model.
    models: Path
    #: Keeps images that are made already.
    work: Path
    #: Of torch.
    device: str
    #: Of torch, by name.
    dtype: str


def measure(
    models: Mapping[str, Model],
    plan: MeasurementPlan,
    prompts: PromptSets,
    judge: score.Judge,
    place: MeasurementPlace,
    console: Console,
) -> Measured:
    """Measure times, make every image that is not there yet, judge all, and tabulate.

    Raises:
        BadWeights: a model cannot be loaded; it names the file.
    """
    device = device_type(place.device)
    with console.status("measuring times"):
        parts = [_part(model, plan, prompts, place) for model in models.values()]
    costs = {p.model.name: cost.cost_s(p.model, plan, p.chunks, p.timed) for p in parts}
    console.print(cost.in_words(costs, device), highlight=False)
    for part in parts:
        _make(part, plan, place, console)
    return record(plan, parts, _judge(plan, parts, judge, console), device)


def _part(
    model: Model, plan: MeasurementPlan, prompts: PromptSets, place: MeasurementPlace
) -> Part:
    folder = place.models / model.name
    weights = digest(folder)
    return Part(
        model=model,
        digest=weights,
        timed=time_model(folder, model, device=place.device, dtype=place.dtype),
        chunks=Chunks(place.work, plan, prompts, model, f"{weights} {place.dtype}"),
    )


def _make(part: Part, plan: MeasurementPlan, place: MeasurementPlace, console: Console) -> None:
    model, left = part.model, cost.steps_left(part.model, plan, part.chunks)
    if not left:
        return
    runner = load(place.models / model.name, model, device=place.device, dtype=place.dtype)
    with bar(console, model.name, left) as tick:
        maker = ImageGenerator(runner, plan.steps_of(model), tick)
        for repeat in range(plan.repeats):
            for level in levels_of(model):
                part.chunks.make(maker, level, repeat)


def _judge(
    plan: MeasurementPlan, parts: Sequence[Part], judge: score.Judge, console: Console
) -> dict[Level, score.LevelScores]:
    """Judge every image."""
    scores = {}
    with bar(console, "judging", sum(len(levels_of(part.model)) for part in parts)) as tick:
        for part in parts:
            for level in levels_of(part.model):
                images = [part.chunks.read(level, repeat) for repeat in range(plan.repeats)]
                scores[level] = score.joined([judge(list(some)) for some in images])
                tick(1)
    return scores


@contextmanager
def bar(console: Console, name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how much of something is done; call what it gives with how much more is."""
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.advance(task, done)
