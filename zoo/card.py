"""Write measured figures at the end of a model folder's README."""

from pathlib import Path

_FIGURES = "\n## Figures\n"


def write_figures(folder: Path, figures: str) -> None:
    """Put the measured figures at the end of README.md, instead of older ones."""
    path = folder / "README.md"
    text = path.read_text().split(_FIGURES)[0]
    path.write_text(f"{text}{_FIGURES}{figures}")
