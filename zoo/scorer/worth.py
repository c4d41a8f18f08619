"""What is a score of this scorer worth? `python -m zoo.scorer.worth`: a line through a profile.

The checker and the scorer have judged the same images of every level; the line is the one of least
squares through the means of the levels.
"""

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer

from scheduler.measured import Measured, read_measured
from worker.worth import FILE, Worth
from zoo.scorer.train import SCORER


def fitted(measured: Measured) -> tuple[Worth, float]:
    """Fit the line; also say which share of the variance it explains.

    Raises:
        ValueError: the profile was measured without a scorer.
    """
    means = [(each.scorer, each.quality) for each in measured.judged.values() if each.scorer]
    if len(means) < 2:
        raise ValueError("the profile has no scores of two levels: measure it with the scorer")
    scores, qualities = np.array(means).T
    slope, offset = np.polyfit(scores, qualities, 1)
    explained = float(np.corrcoef(scores, qualities)[0, 1]) ** 2
    return Worth(slope=round(float(slope), 5), offset=round(float(offset), 5)), explained


def main(
    folder: Annotated[Path, typer.Argument(help="The scorer's.")] = SCORER,
    profile: Annotated[Path, typer.Option(help="Judged by both.")] = Path("zoo/profile.json"),
) -> None:
    """Fit the line and write it beside the scorer. Example: python -m zoo.scorer.worth"""
    worth, explained = fitted(read_measured(profile))
    (folder / FILE).write_bytes(msgspec.json.encode(worth) + b"\n")
    typer.echo(f"{worth}, R2 {explained:.3f}")


if __name__ == "__main__":
    typer.run(main)
