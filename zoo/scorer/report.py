"""Report how well a scorer tells right from wrong.

`python -m zoo.scorer.report --help`
"""

import json
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from worker.diffusion.scorer import Scorer
from zoo.evaluate import PROMPT_SEED, load
from zoo.scorer.figures import Figures
from zoo.scorer.measure import measure
from zoo.scorer.train import GENERATORS, SCORER


def main(
    folder: Annotated[Path, typer.Argument(help="A folder with a CLIPModel.")] = SCORER,
    generator: Annotated[
        list[Path] | None, typer.Option(help="Whose pictures to score; repeat for several.")
    ] = None,
    n: Annotated[int, typer.Option(help="True pictures per level.")] = 400,
    generated: Annotated[int, typer.Option(help="Generated pictures of each.")] = 240,
    seed: Annotated[int, typer.Option(help="Seed of scenes and noise.")] = PROMPT_SEED,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure how well a scorer tells right from wrong.

    Example: python -m zoo.scorer.report zoo/scorers/shapes --generator zoo/weights/shapes-xl
    """
    torch.set_num_threads(1)
    console = Console()
    makers = {path.name: load(path) for path in generator or GENERATORS}
    figures = measure(Scorer(folder), makers, n, generated, seed)
    if as_json:
        console.print_json(json.dumps(figures.as_fields()))
        return
    for table in _tables(figures):
        console.print(table)


def _tables(figures: Figures) -> list[Table]:
    contrasts = Table("wrong caption", "", "pairs", "AUC", title="true pictures")
    for name, rows in (
        ("random", figures.random),
        ("one word", figures.hard | figures.hard_by_kind),
    ):
        for label, row in rows.items():
            contrasts.add_row(name, label, str(row.count), f"{row.auc:.3f}")
    agreements = Table(
        "level or model",
        "pictures",
        "share",
        "rank correlation",
        "strict AUC",
        title="generated pictures",
    )
    for label, each in figures.generated.items():
        numbers = (each.share, each.rank_correlation, each.strict_auc)
        agreements.add_row(label, str(each.count), *(f"{number:.3f}" for number in numbers))
    return [contrasts, agreements]


if __name__ == "__main__":
    typer.run(main)
