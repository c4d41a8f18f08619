"""How requests find their cell, by method and path: one table. Pure."""

import re
from enum import StrEnum
from typing import Final


class Way(StrEnum):
    """How the cell of a request without an id in its path is found."""

    JOB = "job"  #: a new job: by what it names, else by the plan over cells
    HOME = "home"  #: what a tenant keeps, and what every cell answers alike: the tenant's home
    MERGED = "merged"  #: a list: all cells, newest first
    EVERYWHERE = "everywhere"  #: said to all cells: each keeps it
    NAMED = "named"  #: about one cell, which the header `Atelier-Cell` names


_TABLE: Final = (
    (Way.JOB, r"POST /v1/(jobs|images/\w+|predictions|models/[^/]+/[^/]+/predictions)"),
    (Way.MERGED, r"GET /v1/(jobs|files|templates|loras|embeddings|controlnets|predictions)"),
    (Way.MERGED, r"GET /v1/webhooks/dead"),
    (Way.EVERYWHERE, r"(POST|DELETE) /v1/applications(/[^/]+)?"),
    (Way.EVERYWHERE, r"PATCH /v1/tenants/[^/]+"),
    (Way.EVERYWHERE, r"POST /v1/urls/revoke"),
    (Way.NAMED, r"(GET|POST|DELETE) /v1/keys(/.*)?"),
    (Way.NAMED, r"GET /v1/(audit|fleet|plan|history|usage|tenants)(/.*)?"),
    (Way.NAMED, r"GET /metrics"),
    (Way.NAMED, r"(GET|POST) /v1/webhooks/secret(/rotate)?"),
    (Way.NAMED, r"(POST|DELETE) /v1/models(/[^/]+)?"),
)
_WAYS: Final = tuple((way, re.compile(pattern)) for way, pattern in _TABLE)


def way_of(method: str, path: str) -> Way:
    """Tell how a request finds its cell."""
    asked = f"{method} {path}"
    return next((way for way, pattern in _WAYS if pattern.fullmatch(asked)), Way.HOME)
