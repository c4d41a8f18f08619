"""Contact sheet of the same prompts in each style."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from zoo.scenes import Picture

_ZOOM = 96
_COLUMNS = 10
_LEFT = 70
_HEAD = 82
_GAP = 4


def save_sheet(path: Path, captions: Sequence[str], rows: Mapping[str, Sequence[Picture]]) -> None:
    """Save a row of pictures for each style, a column for each of ten prompts of all levels."""
    chosen = range(0, len(captions), max(1, len(captions) // _COLUMNS))[:_COLUMNS]
    cell = _ZOOM + _GAP
    size = (_LEFT + len(chosen) * cell, _HEAD + len(rows) * cell)
    sheet = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(sheet)
    for column, index in enumerate(chosen):
        caption = "\n".join(textwrap.wrap(captions[index], 18)[:7])
        pen.text((_LEFT + column * cell, 2), caption, fill="black", font_size=10)
    for row, (name, pictures) in enumerate(rows.items()):
        top = _HEAD + row * cell
        pen.text((4, top + _ZOOM // 2), name, fill="black", font_size=13)
        for column, index in enumerate(chosen):
            image = Image.fromarray(pictures[index])
            enlarged = image.resize((_ZOOM, _ZOOM), Image.Resampling.NEAREST)
            sheet.paste(enlarged, (_LEFT + column * cell, top))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, optimize=True)
