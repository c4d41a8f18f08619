"""Fit the similarity threshold of latent reuse: `python -m zoo.quality.threshold`.

It reads the images that `zoo.quality.profile` has made and measures their prompts with the encoder
that the scheduler compares prompts by.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from catalog.models import read_models
from classifier.relative import KEPT
from core.levels.approximation import SKIPS, skipping
from core.levels.level import Level, resumed_levels
from core.model import Model
from core.settings import Settings
from profiling.chunks import Chunks, digest
from profiling.generate import ImageGenerator, nearest
from profiling.plan import MeasurementPlan
from scheduler.approximate_cache.embed import Embedder, open_embedder
from worker.families.load import load
from zoo.prompts.measured import captions_of, measured
from zoo.quality.verdict import judge

Column = NDArray[np.float64]

#: What may be asked of a pair; few pairs of the zoo are less alike.
GRID = tuple(round(0.5 + 0.01 * i, 2) for i in range(51))
MIN_PAIRS = 20  #: fewer say nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Prompts that went on from others: how alike they are, and what became of them."""

    similarity: Column  #: [P], cosine by the scheduler's encoder
    whole: Column  #: [P], quality of the same prompt and model at K = 0
    resumed: Mapping[int, Column]  #: K -> [P], quality


def kept(pairs: Pairs, skips: int, at_least: float) -> float:
    """Compare the mean quality at K with that at K = 0, of pairs alike enough; nan if too few."""
    some = pairs.similarity >= at_least
    if some.sum() < MIN_PAIRS:
        return math.nan
    return float(pairs.resumed[skips][some].mean() / pairs.whole[some].mean())


def fit(pairs: Pairs, skips: int) -> float | None:
    """Find the least similarity from which on `KEPT` of the quality stays; None: there is none."""
    least = None
    for at_least in reversed(GRID):
        share = kept(pairs, skips, at_least)
        if math.isnan(share):
            continue
        if share < KEPT:
            break
        least = at_least
    return least


def joined(several: Sequence[Pairs]) -> Pairs:
    """Put pairs of several models and repeats together."""
    return Pairs(
        similarity=np.concatenate([pairs.similarity for pairs in several]),
        whole=np.concatenate([pairs.whole for pairs in several]),
        resumed={k: np.concatenate([pairs.resumed[k] for pairs in several]) for k in SKIPS},
    )


def gather(
    folder: Path, model: Model, plan: MeasurementPlan, work: Path, embedder: Embedder
) -> Pairs:
    """Read what a profile made with one model, and find again which prompt each went on from."""
    runner = load(folder, model, device="cpu", dtype="float32")
    maker = ImageGenerator(runner, plan.steps_of(model), lambda steps: None)
    prompts = captions_of(plan)
    chunks = Chunks(work, plan, prompts, model, f"{digest(folder)} float32")
    own, vectors = maker.embed(prompts.measured), np.stack(embedder.embed(prompts.measured))
    several = []
    for repeat in range(plan.repeats):
        index, _ = nearest(own, chunks.memory(repeat).embeddings)
        remembered = prompts.remembered[repeat]
        others = np.stack(embedder.embed([remembered[i] for i in index.tolist()]))
        similarity = (vectors * others).sum(axis=1).astype(np.float64)
        quality = {k: _quality(chunks, plan, model, k, repeat) for k in (0, *SKIPS)}
        several.append(Pairs(similarity=similarity, whole=quality.pop(0), resumed=quality))
    return joined(several)


def _quality(
    chunks: Chunks, plan: MeasurementPlan, model: Model, skips: int, repeat: int
) -> Column:
    level = Level(model=model.name, approximation=skipping(skips))
    return judge(list(chunks.read(level, repeat)), measured(plan), None).quality


def table_of(pairs: Pairs) -> Table:
    """Show what each similarity keeps."""
    table = Table("alike", "pairs", *(f"K = {k}" for k in SKIPS))
    for at_least in GRID[::5]:
        count = int((pairs.similarity >= at_least).sum())
        shares = [f"{kept(pairs, k, at_least):.3f}" for k in SKIPS]
        table.add_row(f">= {at_least:.2f}", str(count), *shares)
    return table


def main(
    prompts: Annotated[int, typer.Option(help="Of the profile.")] = 200,
    remembered: Annotated[int, typer.Option(help="Of the profile.")] = 500,
    models: Annotated[Path, typer.Option(help="One folder a model.")] = Path("zoo/weights"),
    work: Annotated[Path, typer.Option(help="Images of the profile.")] = Path(".zoo-cache/profile"),
) -> None:
    """Fit `ATELIER_MIN_SIMILARITY` to a profile. Example: --prompts 60 --remembered 120."""
    plan, embedder = (
        MeasurementPlan(prompts=prompts, remembered=remembered),
        open_embedder(Settings()),
    )
    catalogue = read_models(models).values()
    pairs = joined(
        [
            gather(models / model.name, model, plan, work, embedder)
            for model in catalogue
            if resumed_levels(model)
        ]
    )
    console = Console()
    console.print(table_of(pairs))
    console.print({k: fit(pairs, k) for k in SKIPS})


if __name__ == "__main__":
    typer.run(main)
