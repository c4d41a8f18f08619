"""Read a request: who sends it, which services answer it, its JSON body, the job it asks for."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeVar, cast

from fastapi import HTTPException, Request
from pydantic import ValidationError

from api.intake.schemas import Inbound, JobCreate
from api.services.auth import ANYBODY, KeyHolder
from api.services.services import Services
from core.errors import MAX_ERRORS, FieldError, Forbidden, InvalidRequest, Unauthorized
from core.log import bind
from core.text import shorten

B = TypeVar("B", bound=Inbound)
T = TypeVar("T")

FILE_TYPE: Final = "application/octet-stream"
#: Bytes up to which a body is parsed where it is awaited, in less than a millisecond.
SMALL_BYTES: Final = 64 * 2**10
#: Commas and opening brackets of a body, those in its texts too: pydantic builds a tree of all
#: values, and an error for every wrong one, before any limit of a field counts.
MAX_MARKS: Final = 20_000
_MARKS: Final = b",[{"
#: Wrong fields of a body up to which they are named, the first of them.
MAX_COUNTED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was parsed: who asks for what, and how the request is known when it comes again."""

    tenant: str
    create: JobCreate
    key: str | None  #: for idempotency
    digest: str  #: of what is asked for, where there is a key
    ticket: str  #: for a place in line after a refusal


def services_of(request: Request) -> Services:
    """Return the services of the process that answers `request`."""
    return cast(Services, request.app.state.services)


def caller_of(request: Request) -> tuple[Services, str]:
    """Return the services that answer `request`, and the tenant that sends it.

    Raises:
        Unauthorized: it is nobody's.
    """
    services = services_of(request)
    tenant = sender_of(request).tenant
    bind(tenant=tenant)
    return services, tenant


def sender_of(request: Request) -> KeyHolder:
    """Tell who sends `request`: whoever has its key, or anybody where no keys are configured.

    Without keys a request must name this machine, or the host of `public_url`, as its host: a web
    page whose own name was made to resolve to loopback (DNS rebinding) is turned away.

    Raises:
        Unauthorized: it is addressed to another host; or raises as `Keyring.holder_of` does.
        Forbidden: a page of another site has it sent, without a key, to change something.
    """
    keyring = services_of(request).keyring
    if not keyring.is_open:
        return keyring.holder_of(request)
    if request.url.hostname not in keyring.hosts:
        raise Unauthorized("without keys only requests to this machine's own name are taken")
    if request.method not in ("GET", "HEAD"):
        refuse_other_sites(request)
    return ANYBODY


def refuse_other_sites(request: Request) -> None:
    """Turn pages of other sites away: browsers send their forms, and what has no body, unasked.

    Raises: Forbidden.
    """
    site, own = request.headers.get("sec-fetch-site"), request.url.netloc
    origin = request.headers.get("origin", f"://{own}").partition("://")[2]
    if not (origin == own if site is None else site in ("none", "same-origin")):
        raise Forbidden("nothing is taken from pages of other sites")


async def read_asked(request: Request, tenant: str) -> Asked:
    """Read the job that a request asks for; raises like `read_json` and `idempotency_key`."""
    key = idempotency_key(request)
    create = await read_json(request, JobCreate)
    require_json(request)
    return await beside(await request.body(), ask, tenant, key, create)


def idempotency_key(request: Request) -> str | None:
    """Read by which name a client will know its request if it sends it again.

    Raises:
        InvalidRequest: it cannot be one.
    """
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= 255 and key.isascii() and key.isprintable()):
        fault = FieldError("Idempotency-Key", "must be 1 to 255 printable ASCII characters")
        raise InvalidRequest([fault])
    return key


def ask(body: bytes, tenant: str, key: str | None, create: JobCreate) -> Asked:
    """Name a request so that it is known when it comes again."""
    digest = sha256(create.model_dump_json().encode()).hexdigest() if key else ""
    named = sha256(tenant.encode() + b"\n" + (body if key is None else key.encode()))
    ticket = named.hexdigest()[:32]
    return Asked(tenant=tenant, create=create, key=key, digest=digest, ticket=ticket)


async def read_json(request: Request, kind: type[B]) -> B:
    """Read a body: a large one in a thread, and one of those at a time; raises like `parse`."""
    body = await request.body()
    if len(body) <= SMALL_BYTES:
        return parse(kind, body)
    async with services_of(request).parsing:
        return await asyncio.to_thread(parse, kind, body)


async def beside(body: bytes, do: Callable[..., T], *args: object) -> T:
    """Do something with a body, in a thread if it is large."""
    if len(body) <= SMALL_BYTES:
        return do(body, *args)
    return await asyncio.to_thread(do, body, *args)


def require_json(request: Request) -> None:
    """Browsers send other types across sites without asking; a page must not submit anything."""
    if media_type_of(request) != "application/json":
        raise HTTPException(415, "send the body as application/json")


def require_file(request: Request) -> None:
    """Likewise a page must not store files: a safetensors file is sent alone, as the whole body."""
    if media_type_of(request) != FILE_TYPE:
        raise HTTPException(415, f"send the file itself as the body, as {FILE_TYPE}")


def require_image(request: Request) -> None:
    """Likewise a page must not store images."""
    media_type = media_type_of(request)
    if not media_type.startswith("image/") and media_type != FILE_TYPE:
        raise HTTPException(415, "send the image itself as the body, as image/png for example")


def media_type_of(request: Request) -> str:
    """Read what a body is sent as."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def field_errors(error: ValidationError) -> list[FieldError]:
    """Name each field that pydantic refused; no value that the client sent is repeated."""
    if (count := error.error_count()) > MAX_COUNTED:
        return [
            FieldError("body", f"has {count} wrong fields; of at most {MAX_COUNTED} any is named")
        ]
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [FieldError(_path(e["loc"]), e["msg"]) for e in found[:MAX_ERRORS]]


def parse(kind: type[B], body: bytes) -> B:
    """Read a body.

    Raises:
        InvalidRequest: it is no JSON object, has too many values, or fields are unknown, missing
            or of a wrong type.
    """
    check_marks(body)
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise InvalidRequest(field_errors(error)) from error


def check_marks(body: bytes) -> None:
    """Refuse a body with more values than any that is right, before a value of it is read.

    Raises:
        InvalidRequest: it has more than `MAX_MARKS` commas and opening brackets.
    """
    if len(body) <= MAX_MARKS:
        return
    marks = len(body) - len(body.translate(None, _MARKS))
    if marks > MAX_MARKS:
        fault = f"has {marks} commas and opening brackets; at most {MAX_MARKS} are read"
        raise InvalidRequest([FieldError("body", fault)])


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(shorten(str(part)) for part in location) or "body"
