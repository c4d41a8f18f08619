"""Make the pictures of docs/gallery.md by the commands that stand there.

Run as `python -m zoo.demo.gallery`.
A comment of that page names a row of pictures: `<!-- row edit: photo.png edited.png -->`.
"""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from PIL import Image

from cli.client import show
from cli.stack.process import ROOT
from cli.stack.running import running
from zoo.demo.typed import Shell, scripts

PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "images" / "gallery"
ROW = re.compile(r"<!-- row (\w+): (.+) -->")
SIDE, GAP = 128, 8
#: Previews of a job that are shown, evenly from its first to its last.
PREVIEWS = 6


def rows() -> dict[str, Sequence[str]]:
    """Read which pictures the page shows side by side."""
    return {found[1]: found[2].split() for found in ROW.finditer(PAGE.read_text())}


def _pictures(path: Path) -> Iterator[Image.Image]:
    """Open a picture, or the previews of a stream of events."""
    if path.suffix != ".events":
        yield Image.open(path).convert("RGB")
        return
    data = [line[5:] for line in path.read_text().splitlines() if line.startswith("data:")]
    shown = [told["preview"] for told in map(json.loads, data) if told.get("preview")]
    count = min(PREVIEWS, len(shown))
    for number in range(count):
        content = shown[number * (len(shown) - 1) // max(1, count - 1)].rpartition(",")[2]
        yield Image.open(BytesIO(base64.b64decode(content))).convert("RGB")


def _row(pictures: Sequence[Image.Image]) -> Image.Image:
    """Lay pictures side by side: small ones larger, in whole pixels; large ones as they are."""
    sized = [each.resize(_size(each), Image.Resampling.NEAREST) for each in pictures]
    width = sum(each.width + GAP for each in sized) - GAP
    sheet = Image.new("RGBA", (width, max(each.height for each in sized)))
    at = 0
    for each in sized:
        sheet.paste(each, (at, sheet.height - each.height))
        at += each.width + GAP
    return sheet


def _size(image: Image.Image) -> tuple[int, int]:
    times = max(1, SIDE // image.width)
    return image.width * times, image.height * times


def main(out: Annotated[Path, typer.Option(help="Where the pictures go.")] = PICTURES) -> None:
    """Type the page's commands beside a service of their own, and lay out what they made."""
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="atelier-gallery-") as name:
        folder = Path(name)
        (folder / "typed").mkdir()
        with running(folder / "data") as service:
            shell = Shell(folder=folder / "typed", url=service.addresses.api)
            for script in scripts(PAGE):
                shell.type(script)
        for row, names in rows().items():
            found = [each for name in names for each in _pictures(folder / "typed" / name)]
            _row(found).save(out / f"{row}.webp", lossless=True, method=6)
    show.out().print(f"{len(rows())} rows of pictures in {out}")


if __name__ == "__main__":
    typer.run(main)
