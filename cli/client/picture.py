"""Resolve an image argument: a local file, an uploaded image or a URL."""

import base64
import mimetypes
import re
from pathlib import Path

import typer

#: What the service can find by itself: an id it gave, or a URL.
ELSEWHERE = re.compile(r"[0-9a-f]{32}|(https?://|data:).*", re.DOTALL)
UNKNOWN_TYPE = "application/octet-stream"


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
    return f"data:{type_of(path)};base64,{base64.b64encode(path.read_bytes()).decode()}"


def type_of(path: Path) -> str:
    """Guess the media type of a file by its name; the service looks at the bytes."""
    return mimetypes.guess_type(path.name)[0] or UNKNOWN_TYPE
