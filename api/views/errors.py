"""Exception handlers: every error leaves as RFC 9457 `application/problem+json`."""

import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from api.views.openai_error import also_speaks_openai, error_body, speaks_openai
from api.views.problems import MEDIA_TYPE
from api.views.responses import FieldProblem, Problem
from core.errors import (
    MAX_ERRORS,
    FieldError,
    InvalidRequest,
    NewerSchema,
    NoPlan,
    RequestRejected,
    TooLarge,
    TooManyRequests,
    TooSlow,
    Unauthorized,
    Unavailable,
)
from core.log import get_logger
from core.text import shorten

#: Characters that a problem says in one text at most: with the names of fields, and the path, it
#: repeats less than a kilobyte of what was sent.
MAX_DETAIL_CHARS = 550
#: The same of a text that says it once more.
SHORT_CHARS = 150
#: Seconds after which a dependency is worth another try; a plan takes a period to appear.
RETRY_AFTER_S = 2
NO_PLAN_RETRY_AFTER_S = 5

log = get_logger(__name__)


def problem(
    request: Request,
    *,
    kind: str,
    title: str,
    status: int,
    detail: str,
    errors: tuple[FieldError, ...] = (),
    dependency: str | None = None,
    missing: list[str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with problem details; `instance` is the path, never the query."""
    body = Problem(
        type=f"urn:problem-type:atelier:{kind}",
        title=title,
        status=status,
        detail=shorten(detail, MAX_DETAIL_CHARS),
        instance=shorten(request.url.path),
        request_id=request.scope.get("request_id", ""),
        errors=[FieldProblem(field=e.field, detail=e.detail) for e in errors] or None,
        dependency=dependency,
        missing=missing,
    )
    if speaks_openai(request.url.path):  # to whose clients a wrong field is a bad request
        status = 400 if status == 422 else status
        return JSONResponse(_openai(body, errors), status, headers)
    content = body.model_dump(exclude_none=True)
    if also_speaks_openai(request.url.path):  # shortly: the problem says all of it
        content |= _openai(body.model_copy(update={"detail": shorten(detail, SHORT_CHARS)}))
    return JSONResponse(content, status, headers, MEDIA_TYPE)


def _openai(body: Problem, errors: tuple[FieldError, ...] = ()) -> dict[str, Any]:
    """Say a problem as OpenAI's clients read it."""
    code = body.type.rpartition(":")[2].replace("-", "_")
    return error_body(body.status, f"{body.title}: {body.detail}", code=code, errors=errors)


def kind_of(error: type[Exception]) -> str:
    """Name a problem type after its class: `InvalidRequest` -> `invalid-request`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", error.__name__).lower()


def install(app: FastAPI) -> None:
    """Convert every error that leaves a route."""
    app.add_exception_handler(RequestRejected, _rejected)
    app.add_exception_handler(Unavailable, _unavailable)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _rejected(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRejected)
    return problem(
        request,
        kind=kind_of(type(error)),
        title=error.title,
        status=error.status,
        detail=str(error),
        errors=error.errors if isinstance(error, InvalidRequest) else (),
        headers=_headers_of(error),
    )


def _headers_of(error: RequestRejected) -> dict[str, str]:
    match error:
        case TooManyRequests():
            return {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
        case Unauthorized():
            return {"WWW-Authenticate": "Bearer"}
        case TooLarge() | TooSlow():
            return {"Connection": "close"}
        case _:
            return {}


async def _unavailable(request: Request, error: Exception) -> Response:
    assert isinstance(error, Unavailable)
    log.warning("dependency_unavailable", dependency=error.dependency, error=str(error))
    wait_s = NO_PLAN_RETRY_AFTER_S if isinstance(error, NoPlan) else RETRY_AFTER_S
    return problem(
        request,
        kind="unavailable",
        title="Something this service depends on does not answer",
        status=503,
        detail=_detail_of(error),
        dependency=error.dependency,
        headers={"Retry-After": str(wait_s)},
    )


def _detail_of(error: Unavailable) -> str:
    """Say what is missing; what a client library says of our network is for the log alone."""
    told = isinstance(error, NoPlan | NewerSchema)
    return str(error) if told else f"the {error.dependency} does not answer"


async def _invalid_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [
        FieldError(".".join(map(str, e["loc"][1:])), e["msg"]) for e in error.errors()[:MAX_ERRORS]
    ]
    return await _rejected(request, InvalidRequest(found))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    return problem(
        request,
        kind=phrase.lower().replace(" ", "-"),
        title=phrase,
        status=error.status_code,
        detail=f"{request.method} {shorten(request.url.path)}: {error.detail}",
        headers=_allowed(request) if error.status_code == 405 else error.headers,
    )


def _allowed(request: Request) -> dict[str, str]:
    """List the methods of every route at this path; the framework names the first one's only."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [r for r in routes if r.matches(request.scope)[0] is not Match.NONE]
    return {"Allow": ", ".join(sorted({method for r in found for method in r.methods or ()}))}


async def _unexpected(request: Request, error: Exception) -> Response:
    request_id = request.scope.get("request_id", "")
    path = shorten(request.url.path)
    log.error("unexpected_error", request_id=request_id, path=path, exc_info=error)
    return problem(
        request,
        kind="internal-error",
        title="Something went wrong on our side",
        status=500,
        detail="The error is logged under this request id.",
        headers={"X-Request-Id": request_id},
    )
