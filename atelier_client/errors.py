"""Exceptions of the client.

ClientError
├── NoAnswer            the service does not answer, or not as an Atelier service does
├── ProblemError        it said no: the fields of RFC 9457 problem details
│   ├── InvalidRequest      400, 413, 415, 422: change the request
│   ├── Unauthorized        401: no valid key
│   ├── Forbidden           403: the key may not, or a signed URL has expired
│   ├── NotFound            404, 410: no such thing, or no more
│   ├── Conflict            409
│   ├── TooManyRequests     429: ask again after `retry_after_s`
│   └── ServiceFailed       500 and above
├── JobFailed           a job ended without images
├── WaitTimeout         a job has not ended in the time given; it goes on
├── WrongBytes          an image is not the one that was made
└── WebhookRejected     a webhook is not signed by the secret, or is out of date
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from atelier_client.decoding import decode

if TYPE_CHECKING:
    from atelier_client.types.job import Job


class ClientError(Exception):
    """Whatever this package raises by itself."""


class NoAnswer(ClientError):
    """The service does not answer, or not as an Atelier service does."""


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one field of a request."""

    field: str  #: a path with dots
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 9457 problem details."""

    type: str = "about:blank"  #: the same for equal causes
    title: str = "The service did not say why"
    status: int = 0
    detail: str = ""
    instance: str = ""  #: the path that was asked for
    request_id: str = ""  #: as in the service's log
    errors: tuple[FieldProblem, ...] | None = None
    dependency: str | None = None  #: what the service waits for
    missing: tuple[str, ...] | None = None  #: what is not ready

    def __str__(self) -> str:
        fields = [f"  {each.field}: {each.detail}" for each in self.errors or ()]
        return "\n".join([f"{self.title} ({self.status})", *(fields or [f"  {self.detail}"])])


class ProblemError(ClientError):
    """The service refused a request or could not serve it; `problem` says why."""

    def __init__(
        self, problem: Problem, body: bytes = b"", retry_after_s: float | None = None
    ) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.body = body  #: as the service wrote it
        self.retry_after_s = retry_after_s  #: seconds after which it is worth asking again

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def request_id(self) -> str:
        """Under which the service's log knows the request."""
        return self.problem.request_id

    @property
    def errors(self) -> tuple[FieldProblem, ...]:
        """What is wrong with which field."""
        return self.problem.errors or ()


class InvalidRequest(ProblemError):
    """The request cannot be accepted as it is."""


class Unauthorized(ProblemError):
    """There was no key, or none that the service knows."""


class Forbidden(ProblemError):
    """The key has not the scope for this, or the signed URL works no more."""


class NotFound(ProblemError):
    """There is no such thing, it is another tenant's, or it is kept no more."""


class Conflict(ProblemError):
    """It cannot be done in the state that things are in."""


class TooManyRequests(ProblemError):
    """A limit is reached, or the job would miss its deadline."""


class ServiceFailed(ProblemError):
    """The service, or something it depends on, failed."""


class JobFailed(ClientError):
    """A job ended without images; `job` says how."""

    def __init__(self, job: "Job") -> None:
        why = f": {job.error.title}: {job.error.detail}" if job.error else ""
        super().__init__(f"job {job.id} is {job.status}{why}")
        self.job = job


class WaitTimeout(ClientError, TimeoutError):
    """A job has not ended in the time given. It goes on: wait again, or cancel it."""

    def __init__(self, job: "Job", timeout_s: float) -> None:
        super().__init__(f"job {job.id} is still {job.status} after {timeout_s:g} s")
        self.job = job


class WrongBytes(ClientError):
    """What was fetched is not what was made."""


class WebhookRejected(ClientError):
    """A webhook is not signed by this secret, is out of date, or says nothing of a job."""


OF_STATUS: Mapping[int, type[ProblemError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    429: TooManyRequests,
}


def error_of(status: int, body: bytes, retry_after_s: float | None = None) -> ProblemError:
    """Make the exception for an answer that is no success."""
    try:
        problem = decode(body, Problem)
    except msgspec.DecodeError:
        problem = Problem(detail=body[:500].decode(errors="replace"))
    problem = msgspec.structs.replace(problem, status=status)
    kind = OF_STATUS.get(status) or (ServiceFailed if status >= 500 else InvalidRequest)
    return kind(problem, body, retry_after_s)
