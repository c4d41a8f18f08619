"""Declare problems in the API's description: their media type, wherever they may be sent."""

from collections.abc import Iterator
from typing import Any, Final

from api.views.openai_error import ErrorView, speaks_openai
from api.views.responses import Problem

MEDIA_TYPE: Final = "application/problem+json"
_REF: Final = "#/components/schemas/"
#: What the framework describes and is never sent: problems are.
UNSENT: Final = ("HTTPValidationError", "ValidationError")


def declare(document: dict[str, Any]) -> None:
    """Declare problems where they are sent, and as the answer to whatever else goes wrong."""
    for path, operation in _operations(document):
        responses = operation.setdefault("responses", {})
        for answer in responses.values():
            _retype(answer)
        responses.setdefault("default", _anything_else(path))
    for name in UNSENT:
        document["components"]["schemas"].pop(name, None)


def _retype(answer: dict[str, Any]) -> None:
    """Send a problem as one; what the framework says of wrong parameters is one as well."""
    content = answer.get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    if schema.get("$ref") in {_REF + name for name in (Problem.__name__, *UNSENT)}:
        answer["content"] = {MEDIA_TYPE: {"schema": {"$ref": _REF + Problem.__name__}}}


def _anything_else(path: str) -> dict[str, Any]:
    kind, model = MEDIA_TYPE, Problem.__name__
    if speaks_openai(path):
        kind, model = "application/json", ErrorView.__name__
    schema = {"schema": {"$ref": _REF + model}}
    return {"description": "Whatever else is wrong; says what to do", "content": {kind: schema}}


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation
