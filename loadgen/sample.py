"""Outcome of one request, as its client saw it. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from core.job import Timing


class ClientOutcome(StrEnum):
    """How a request ended for its client. The first four are the job's own."""

    SUCCEEDED = "succeeded"  #: its images have URLs
    FAILED = "failed"  #: accepted, then given up
    CANCELED = "canceled"  #: somebody stopped it
    EXPIRED = "expired"  #: its deadline passed
    REFUSED = "refused"  #: never accepted: 4xx or 503
    BROKEN = "broken"  #: no answer, or one that is no job
    TIMED_OUT = "timed out"  #: accepted, not ended when the client stopped waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSample:
    """One request from its due time to its end. Seconds count from the start of the run."""

    due_s: float  #: when the arrival process wanted it sent
    sent_s: float  #: when it was sent; later than due_s only if this client is too slow
    accepted_s: float | None = None  #: when the answer to the submit arrived, if it was a job
    ended_s: float  #: when the client knew the end
    ending: ClientOutcome
    job_id: str | None = None
    model: str | None = None  #: that the placement chose
    level: str | None = None  #: that the placement chose
    timing: Timing | None = None  #: the service's own account
    error: str | None = None  #: a short cause, the same for equal causes
    is_withdrawn: bool = False  #: this client canceled it
    quality: float | None = None  #: of its prompt at the level that it got, where that is known

    @property
    def latency_s(self) -> float:
        """From the due time, so that a slow client cannot hide a slow service."""
        return self.ended_s - self.due_s
