"""What a request says of cells: ids in path and body, what its jobs should stay with. Pure."""

import re
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from core.cells.ids import CELL

_IN_PATH: Final = re.compile(rf"(?<=/)(?:({CELL})_)?[0-9a-f]{{32}}(?![^/:.])")
_OF_TENANT: Final = re.compile(r"/files/[^/]*")
_OF_KEPT: Final = re.compile(r"/v1/(files|templates|loras|embeddings|controlnets)(/.*)?")
#: Whole strings of JSON and parts of forms: an id, or a URL that ends with one.
_IN_BODY: Final = re.compile(rf"[\"\n/=]({CELL})_[0-9a-f]{{32}}(?=[\"\r&]|$)".encode())


class _Sticky(msgspec.Struct):
    """What of a body recordings and latents are kept by."""

    template: object = None


def cell_in_path(path: str) -> str | None:
    """Name the cell of the id in a path; empty if the id has none; None: there is no id.

    The tenant in the URL of an image is none, whatever its name looks like.
    """
    tenant = _OF_TENANT.match(path)
    found = _IN_PATH.search(path, tenant.end() if tenant else 0)
    return None if found is None else found[1] or ""


def is_about_kept(path: str) -> bool:
    """Tell whether a path is about what tenants keep, which an evacuated cell has handed over."""
    return _OF_KEPT.fullmatch(path) is not None


def cells_in_body(body: bytes | bytearray, known: Collection[str]) -> list[str]:
    """Name the cells of what a new job names, in the order in which it does."""
    found = (each.decode() for each in _IN_BODY.findall(body))
    return [name for name in dict.fromkeys(found) if name in known]


def template_of(body: bytes | bytearray) -> str:
    """Tell the template of an edit, whatever names it; empty: there is none, or it is no JSON."""
    try:
        template = msgspec.json.decode(body, type=_Sticky).template
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
    return template if isinstance(template, str) else ""


def key_of(headers: Mapping[str, str]) -> str:
    """Read the key that a request carries; empty if it carries none."""
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
