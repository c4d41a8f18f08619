"""What the API description says of routes whose bodies and errors FastAPI cannot see. Pure."""

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from api.schemas import Problem

Responses = dict[int | str, dict[str, Any]]

PROBLEMS: Responses = {
    code: {"model": Problem, "description": text}
    for code, text in {
        401: "No valid API key",
        409: "The Idempotency-Key was used for another request",
        413: "The body is too large",
        422: "Fields that cannot be accepted, each named",
        429: "The queue is full; see Retry-After",
        503: "A dependency does not answer; see Retry-After",
    }.items()
}
NOT_FOUND: Responses = {404: {"model": Problem, "description": "No such job, or another tenant's"}}
SUBMIT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobCreate"}}},
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "The same key and body answer with the same job for a day.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        }
    ],
}


class DirectRoute(APIRoute):
    """A described route whose endpoint takes the request alone: nothing is injected."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Hand the request over; looking for parameters would take a tenth of a submit's time."""
        return cast(Callable[[Request], Coroutine[Any, Any, Response]], self.endpoint)
