"""Errors as OpenAI's clients read them."""

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel

from core.errors import FieldError

#: Paths whose errors are of this shape.
PATHS: Final = ("/v1/images/",)
#: Paths that our own clients ask as well: their errors are problems, with an `error` beside.
SHARED: Final = re.compile(r"/v1/models(/[^/]*)?")


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorView(BaseModel):
    """An error."""

    error: ErrorDetail


def speaks_openai(path: str) -> bool:
    """Tell whether a path is of OpenAI's API."""
    return path.startswith(PATHS)


def also_speaks_openai(path: str) -> bool:
    """Tell whether a path is of OpenAI's API and of ours."""
    return SHARED.fullmatch(path) is not None


def error_body(
    status: int, message: str, *, code: str, errors: Sequence[FieldError] = ()
) -> dict[str, Any]:
    """Write an error; the first field that is wrong is its `param`."""
    said = "; ".join([f"{each.field}: {each.detail}" for each in errors]) or message
    return {
        "error": {
            "message": said,
            "type": _type_of(status),
            "param": errors[0].field if errors else None,
            "code": code,
        }
    }


def _type_of(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
