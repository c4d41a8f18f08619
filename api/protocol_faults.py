"""Say why a connection is answered and closed, each with its limit. Pure."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from uuid import uuid4

from api.views.responses import Problem

#: Bytes of a path with its query.
MAX_TARGET_BYTES: Final = 8 * 2**10
#: Bytes of all headers of a request, and how many they may be.
MAX_HEADER_BYTES: Final = 32 * 2**10
MAX_HEADERS: Final = 100
#: Bytes that may be neither body nor a whole header (framing, trailers, extensions of chunks),
#: beside as many as there are of body; of those no more than so many count.
MAX_OVERHEAD_BYTES: Final = 64 * 2**10
MAX_CREDIT_BYTES: Final = 2**20
#: Requests that wait behind one on its connection.
MAX_PIPELINED: Final = 16
#: Connections, and those of one address.
MAX_CONNECTIONS: Final = 2000
MAX_OF_CLIENT: Final = 1000
#: Seconds for the head of a request, from the connection or from its first byte.
HEAD_S: Final = 15.0
#: When who was one too many may come again.
_RETRY: Final = "Retry-After: 1\r\n"


@dataclass(frozen=True, slots=True)
class ProtocolFault:
    """Why a connection is answered and closed."""

    status: HTTPStatus
    detail: str  #: with the limit


TARGET = ProtocolFault(
    HTTPStatus.REQUEST_URI_TOO_LONG,
    f"the path and the query of a request may have at most {MAX_TARGET_BYTES} bytes",
)
HEADERS = ProtocolFault(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"a request may have at most {MAX_HEADERS} headers of at most {MAX_HEADER_BYTES} bytes in all",
)
FRAMING = ProtocolFault(
    HTTPStatus.BAD_REQUEST,
    f"more than {MAX_OVERHEAD_BYTES} bytes of a request are neither its headers nor its body: "
    "send it in larger chunks, without extensions and trailers",
)
PIPELINE = ProtocolFault(
    HTTPStatus.TOO_MANY_REQUESTS,
    f"at most {MAX_PIPELINED} requests may wait on one connection for their answers",
)
LATE = ProtocolFault(
    HTTPStatus.REQUEST_TIMEOUT, f"the head of a request must come within {HEAD_S:g} seconds"
)
CROWD = ProtocolFault(
    HTTPStatus.TOO_MANY_REQUESTS,
    f"at most {MAX_CONNECTIONS} connections are held, {MAX_OF_CLIENT} of them for one address",
)
MALFORMED = ProtocolFault(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")


def answer(fault: ProtocolFault) -> bytes:
    """Write a whole response that refuses."""
    request_id = uuid4().hex
    kind = fault.status.phrase.lower().replace(" ", "-")
    problem = Problem(
        type=f"urn:problem-type:atelier:{kind}",
        title=fault.status.phrase,
        status=fault.status.value,
        detail=fault.detail,
        instance="",
        request_id=request_id,
    )
    body = problem.model_dump_json(exclude_none=True).encode()
    head = (
        f"HTTP/1.1 {fault.status.value} {fault.status.phrase}\r\n"
        "Content-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        f"{_RETRY if fault.status is HTTPStatus.TOO_MANY_REQUESTS else ''}"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
