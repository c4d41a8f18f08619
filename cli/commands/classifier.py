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
from classifier.training.evaluate import evaluate
from classifier.training.train import train
from cli.client import show
from cli.stack.services import models_dir
from core.settings import CLASSIFIER, get_settings

EXAMPLE = "Example: atelier train-classifier --labels train.jsonl.gz --output data/classifier"

TEACH, TEST = "train.jsonl.gz", "test.jsonl.gz"  #: beside the classifier that is shipped


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
    shipped = models_dir(settings).resolve().parent / CLASSIFIER
    learned, measured = read_labels(labels or shipped / TEACH), read_labels(test or shipped / TEST)
    target = output or settings.data_dir / CLASSIFIER
    encoder = open_encoder(settings)
    with _bar(2 * len(set(learned.prompts))) as tick:
        train(learned, encoder, target, tick=tick)
    classifier = TrainedClassifier(target, encoder)
    card = note_figures(target, _figures(classifier, measured))
    show.err().print(f"Written to {target}", highlight=False)
    if as_json:
        return typer.echo(msgspec.json.encode(card))
    for table in tables(card):
        show.out().print(table)


def _figures(classifier: TrainedClassifier, test: Labels) -> Mapping[str, float]:
    found = evaluate(classifier, test).figures()
    return {f"test_{name}": value for name, value in found.items()}


def tables(card: Card) -> Iterator[Table]:
    """Lay out a classifier for people."""
    shares, quality = card.classes.shares, card.classes.quality
    classes = Table("level", *shares, title="Relative quality of each class", box=None)
    classes.add_row("prompts", *(f"{share:.1%}" for share in shares.values()))
    for level in card.levels:
        classes.add_row(level, *(f"{quality[name][level]:.2f}" for name in shares))
    yield classes
    figures = Table("figure", "value", title=f"{card.labels} labels", box=None)
    for name, value in card.figures.items():
        figures.add_row(name, f"{value:.4f}")
    yield figures


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("training"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=show.err()) as progress:
        task = progress.add_task("training", total=total)
        yield lambda done: progress.advance(task, done)
