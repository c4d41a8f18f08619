"""Which service is put under load, how its jobs are followed, and what it has to keep."""

from dataclasses import dataclass
from enum import StrEnum


class Follow(StrEnum):
    """How a client learns that its job has ended."""

    LONG_POLL = "long-poll"  #: it asks, and the service answers when there is something new
    POLL = "poll"  #: it asks again and again
    EVENTS = "events"  #: it reads a stream of server-sent events
    WEBHOOK = "webhook"  #: the service calls this process, on loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A service, and how its jobs are followed."""

    url: str
    key: str | None = None
    follow: Follow = Follow.LONG_POLL
    patience_s: float = 300.0  #: for one job


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityTerms:
    """What a service has to keep for a rate to count, and how each rate is tried."""

    slo_s: float | None = None  #: None: three times what a lone job takes
    max_late: float = 0.05  #: share of the requests
    warm_up_s: float = 10.0  #: of each trial, in which nobody is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run has to keep."""

    slo_s: float | None = None  #: after which a request is late
    max_late: float | None = None  #: share of the requests
    min_goodput: float | None = None
