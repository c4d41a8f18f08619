"""Resolve an image argument: a local file, an uploaded image or a URL."""

import re
from pathlib import Path

import typer

from atelier_client import pictures

#: What the service can find by itself: an id it gave, or a URL.
ELSEWHERE = re.compile(r"([a-z][a-z0-9]{0,15}_)?[0-9a-f]{32}|(https?://|data:).*", re.DOTALL)


def named(image: str) -> str:
    """Write an image as a request names it: a file as a `data:` URL, the rest as it is.

    Raises:
        typer.BadParameter: it is neither a file nor an id nor a URL.
    """
    if ELSEWHERE.fullmatch(image):
        return image
    path = Path(image)
    if not path.is_file():
        raise typer.BadParameter(f"{image} is no file, no id and no URL")
    return pictures.named(path)
