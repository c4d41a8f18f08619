"""Contact sheet of the demo's images, with captions."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

WIDTH = 1080
GAP = 12
HEADING = 22
LINE = 14
FRAME = 3
#: Width of a letter of a caption, in the mean.
LETTER = 6.3

#: Pictures in a row, if their number is not given: as leaves the fewest places empty.
COLUMNS = range(6, 9)

#: Frames of pictures that show what they should, and of others.
GOOD, BAD = "#2a9d5c", "#d08a2e"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionedImage:
    """One image and what is written below it."""

    image: Image.Image
    caption: str
    is_good: bool  #: it shows what it should


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Images under one heading, in as many rows as they need."""

    heading: str
    images: Sequence[CaptionedImage]
    columns: int | None = None  #: images in a row

    @property
    def rows(self) -> Sequence[Sequence[CaptionedImage]]:
        """The images row by row."""
        columns = self._columns
        return [self.images[at : at + columns] for at in range(0, len(self.images), columns)]

    @property
    def zoom(self) -> int:
        """Longer side of an image, so that a row is as wide as the sheet."""
        return (WIDTH - GAP) // self._columns - GAP

    @property
    def _columns(self) -> int:
        count = len(self.images)
        return self.columns or min(COLUMNS, key=lambda columns: -count % columns)


def save_sheet(path: Path, sections: Sequence[Section]) -> None:
    """Save pictures section by section, no row higher than its longest caption needs."""
    height = GAP + sum(
        HEADING + sum(_height(row, section.zoom) for row in section.rows) for section in sections
    )
    sheet = Image.new("RGB", (WIDTH, height), "white")
    top = GAP
    for section in sections:
        ImageDraw.Draw(sheet).text((GAP, top - 4), section.heading, fill="#1f3a5f", font_size=13)
        top += HEADING
        for row in section.rows:
            for column, picture in enumerate(row):
                _paste(sheet, GAP + column * (section.zoom + GAP), top, picture, section.zoom)
            top += _height(row, section.zoom)
    sheet.save(path, optimize=True)


def _lines(picture: CaptionedImage, zoom: int) -> list[str]:
    return textwrap.wrap(picture.caption, int(zoom / LETTER))


def _height(row: Sequence[CaptionedImage], zoom: int) -> int:
    lines = max(len(_lines(picture, zoom)) for picture in row)
    return max(_size(picture, zoom)[1] for picture in row) + FRAME + LINE * lines + GAP


def _size(picture: CaptionedImage, zoom: int) -> tuple[int, int]:
    scale = zoom / max(picture.image.size)
    return round(picture.image.width * scale), round(picture.image.height * scale)


def _paste(sheet: Image.Image, left: int, top: int, picture: CaptionedImage, zoom: int) -> None:
    width, height = _size(picture, zoom)
    sheet.paste(picture.image.resize((width, height), Image.Resampling.NEAREST), (left, top))
    draw = ImageDraw.Draw(sheet)
    frame = (left - FRAME, top - FRAME, left + width + FRAME - 1, top + height + FRAME - 1)
    draw.rectangle(frame, outline=GOOD if picture.is_good else BAD, width=FRAME)
    for number, line in enumerate(_lines(picture, zoom)):
        at = (left, top + height + FRAME + 1 + number * LINE)
        draw.text(at, line, fill="black", font_size=11)
