"""Sample grid of a model, with captions."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from zoo.scenes import Picture

_ZOOM = 128
_CELL = (150, 226)
_COLUMNS = 8
_LINE = 11


def save_grid(path: Path, examples: Mapping[int, Sequence[tuple[str, Picture]]]) -> None:
    """Save a row of captioned samples for each level."""
    sheet = Image.new("RGB", (_COLUMNS * _CELL[0], len(examples) * _CELL[1]), "white")
    for row, (level, pairs) in enumerate(examples.items()):
        for column, (caption, picture) in enumerate(pairs[:_COLUMNS]):
            corner = (column * _CELL[0], row * _CELL[1])
            _paste(sheet, corner, f"{level}: {caption}", picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, optimize=True)


def _paste(sheet: Image.Image, corner: tuple[int, int], caption: str, picture: Picture) -> None:
    left, top = corner
    enlarged = Image.fromarray(picture).resize((_ZOOM, _ZOOM), Image.Resampling.NEAREST)
    sheet.paste(enlarged, (left + 11, top + 4))
    draw = ImageDraw.Draw(sheet)
    for number, line in enumerate(textwrap.wrap(caption, 25)[:8]):
        draw.text((left + 5, top + 134 + number * _LINE), line, fill="black", font_size=10)
