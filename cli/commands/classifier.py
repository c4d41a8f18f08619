"""Command `atelier train-classifier`: train the prompt classifier."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from classifier.encoder.installed import open_encoder
from classifier.labels import Labels, read_labels
from classifier.trained import Card, TrainedClassifier, note_figures
from classifier.training.data import TAUGHT, TESTED, keep_labels
from classifier.training.evaluate import evaluate
from classifier.training.train import train
from cli.client import show
from cli.stack.services import models_dir
from core.settings import CLASSIFIER, get_settings

EXAMPLE = "Example: atelier train-classifier --labels train.jsonl.gz --output data/classifier"

#: Figures by their names; None: nothing is known.
Figures = Mapping[str, float | None]


def train_classifier(
    labels: Annotated[
        Path | None, typer.Option(help="What to learn of prompts; else what is shipped.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Judged images of other prompts, to measure it by.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write here; else where the service reads it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what it knows as JSON.")] = False,
) -> None:
    """Train the classifier that tells the scheduler how fast a level each prompt may take.

    Labels come from `python -m zoo.quality.label`, perhaps by way of `zoo.quality.distil`, or from
    images that the service made.
    """
    settings = get_settings()
    shipped = models_dir(settings).parent / CLASSIFIER
    learned = read_labels(labels or _shipped(shipped / TAUGHT, "--labels"))
    measured = read_labels(test or _shipped(shipped / TESTED, "--test"))
    target = output or settings.classifier_dir or settings.data_dir / CLASSIFIER
    encoder = open_encoder(settings)
    with _bar(2 * len(set(learned.prompts))) as tick:
        train(learned, encoder, target, tick=tick)
    keep_labels(target, taught=learned, tested=measured)
    classifier = TrainedClassifier(target, encoder)
    found = _figures(classifier, measured)
    card = note_figures(target, {name: each for name, each in found.items() if each is not None})
    show.err().print(f"Written to {target}", highlight=False)
    figures = {**card.figures, **found}
    if as_json:
        return typer.echo(msgspec.json.encode(msgspec.to_builtins(card) | {"figures": figures}))
    for table in tables(card, figures):
        show.out().print(table)


def _shipped(path: Path, option: str) -> Path:
    """Take a file of labels that ships with the models, where it is."""
    if not path.exists():
        said = f"no {path.name} is beside these models, in {path.parent}: name a file of labels"
        raise typer.BadParameter(said, param_hint=option)
    return path


def _figures(classifier: TrainedClassifier, test: Labels) -> Figures:
    """Measure it; of levels that no test image is at nothing is known, and it is said why."""
    found = evaluate(classifier, test)
    if not found.images:
        levels = ", ".join(classifier.levels)
        said = f"No test figures: no image of the test set is at {levels}. --test names another."
        show.err().print(said, highlight=False, markup=False)
    values = found.figures().items()
    return {f"test_{name}": value if found.images else None for name, value in values}


def tables(card: Card, found: Figures) -> Iterator[Table]:
    """Lay out a classifier for people. `found`: figures of it, on prompts it never saw."""
    shares, quality = card.classes.shares, card.classes.quality
    classes = Table("level", *shares, title="Relative quality of each class", box=None)
    classes.add_row("prompts", *(f"{share:.1%}" for share in shares.values()))
    for level in card.levels:
        classes.add_row(level, *(f"{quality[name][level]:.2f}" for name in shares))
    yield classes
    figures = Table("figure", "value", title=f"{card.labels} labels", box=None)
    for name, value in found.items():
        figures.add_row(name, "-" if value is None else f"{value:.4f}")
    yield figures


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("training"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=show.err()) as progress:
        task = progress.add_task("training", total=total)
        yield lambda done: progress.advance(task, done)
