"""Contact sheet of the demo's images, with captions."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

ZOOM = 160
GAP = 12
LINE = 15
LINES = 7
FRAME = 3

#: Frames of pictures that show what they should, and of others.
GOOD, BAD = "#2a9d5c", "#d08a2e"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionedImage:
    """One image and what is written below it."""

    image: Image.Image
    caption: str
    is_good: bool  #: it shows what it should


def save_sheet(path: Path, rows: Sequence[tuple[str, Sequence[CaptionedImage]]]) -> None:
    """Save rows of pictures, each row under its heading."""
    columns = max(len(pictures) for _, pictures in rows)
    height = LINE + ZOOM + LINE * LINES + GAP
    size = (GAP + columns * (ZOOM + GAP), GAP + len(rows) * height)
    sheet = Image.new("RGB", size, "white")
    for row, (heading, pictures) in enumerate(rows):
        top = GAP + row * height
        ImageDraw.Draw(sheet).text((GAP, top - 4), heading, fill="#1f3a5f", font_size=12)
        for column, picture in enumerate(pictures):
            _paste(sheet, GAP + column * (ZOOM + GAP), top + LINE, picture)
    sheet.save(path, optimize=True)


def _paste(sheet: Image.Image, left: int, top: int, picture: CaptionedImage) -> None:
    scale = ZOOM / max(picture.image.size)
    size = (round(picture.image.width * scale), round(picture.image.height * scale))
    sheet.paste(picture.image.resize(size, Image.Resampling.NEAREST), (left, top))
    draw = ImageDraw.Draw(sheet)
    frame = (left - FRAME, top - FRAME, left + size[0] + FRAME - 1, top + size[1] + FRAME - 1)
    draw.rectangle(frame, outline=GOOD if picture.is_good else BAD, width=FRAME)
    for number, line in enumerate(textwrap.wrap(picture.caption, 27)[:LINES]):
        at = (left, top + ZOOM + FRAME + 2 + number * LINE)
        draw.text(at, line, fill="black", font_size=11)
