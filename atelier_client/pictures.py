"""Write pictures as requests name them: a file or bytes as a `data:` URL, the rest by id or URL."""

import base64
import mimetypes
from pathlib import Path
from typing import Any

from atelier_client.types.request import Picture

UNKNOWN_TYPE = "application/octet-stream"


def named(picture: Picture) -> str:
    """Write a picture as a request names it.

    Raises:
        OSError: a file cannot be read.
    """
    match picture:
        case str():
            return picture
        case bytes():
            return _data_url(picture, UNKNOWN_TYPE)
        case Path():
            return _data_url(picture.read_bytes(), type_of(picture))
        case _:
            return picture.id


def with_pictures(fields: dict[str, Any]) -> dict[str, Any]:
    """Write the pictures among the fields of a job, and leave out what is None."""
    body = {name: value for name, value in fields.items() if value is not None}
    for name in ("image", "template", "mask"):
        if name in body:
            body[name] = named(body[name])
    if "controls" in body:
        body["controls"] = [{**use, "image": named(use["image"])} for use in body["controls"]]
    if "ip_adapter" in body:
        use = body["ip_adapter"]
        body["ip_adapter"] = {**use, "image": named(use["image"])}
    return body


def type_of(path: Path) -> str:
    """Guess the media type of a file by its name; the service looks at the bytes."""
    return mimetypes.guess_type(path.name)[0] or UNKNOWN_TYPE


def _data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
