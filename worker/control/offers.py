"""Offer ControlNet sessions as Celery tasks on a queue that all ControlNet workers share.

Imports no torch: workers of other kinds read this too.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

import msgspec

from core.log import get_logger
from worker.futures import tried

log = get_logger(__name__)

#: The task that sees one session from its begin to its end.
TASK = "tasks.control"
#: Served by ControlNet workers, which take from it as many sessions as they may have.
QUEUE = "control"

#: An offer that nobody has taken after so long is made again; later ones wait twice as long.
SOON_S = 0.4
#: An offer is of no use after so long, by the store's clock: it has been made again.
EXPIRES_S = 2.0


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A session that some ControlNet worker is to take."""

    session: str
    controlnet: str  #: its id
    endpoints: tuple[str, ...]  #: of the base worker; the first that can be reached is taken
    offered_at: float | None = None  #: epoch s, the store's clock; None: unknown


class Courier:
    """Puts offers on the queue, one after another, in a thread that may wait for the broker."""

    def __init__(self, offer: Callable[[Offer], object]) -> None:
        self._offer = offer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="offers")

    def send(self, offer: Offer) -> None:
        """Put an offer on the queue soon; one that is lost is made again anyway."""
        self._thread.submit(self._put, offer)

    def close(self) -> None:
        """Send nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _put(self, offer: Offer) -> None:
        lost = tried(partial(self._offer, offer))
        if isinstance(lost, Exception):  # it is made again
            log.warning("session_not_offered", reason=f"{type(lost).__name__}: {lost}")


class Sender(Protocol):
    """The part of a Celery app that sends."""

    def send_task(
        self, name: str, args: tuple[object, ...], *, queue: str, expiration: float
    ) -> object: ...


class OfferStore(Protocol):
    """The part of a Redis client that offers need."""

    def time(self) -> tuple[int, int]:
        """Read its clock: seconds since the epoch, and microseconds."""

    def expire(self, name: str, time: int) -> object:
        """Have a key deleted after so many seconds."""


def offer_by(sender: Sender, client: OfferStore) -> Callable[[Offer], None]:
    """Give what puts offers on the queue; it waits for the broker.

    A queue that nobody serves is forgotten, as offers are made again while they are of use.
    Celery's `expires` is a time by the clock of one host, read on another: it is not used. By
    `expiration` RabbitMQ drops an offer by its own.
    """

    def offer(offer: Offer) -> None:
        now = msgspec.structs.replace(offer, offered_at=_epoch_s(client))
        sender.send_task(TASK, (msgspec.to_builtins(now),), queue=QUEUE, expiration=EXPIRES_S)
        client.expire(QUEUE, int(4 * EXPIRES_S))

    return offer


def is_stale(client: OfferStore, offer: Offer) -> bool:
    """Tell whether an offer has been made again since; no, if the store does not say."""
    if offer.offered_at is None:
        return False
    now = tried(partial(_epoch_s, client))
    return not isinstance(now, Exception) and now - offer.offered_at > EXPIRES_S


def _epoch_s(client: OfferStore) -> float:
    """Read the one clock."""
    seconds, micros = client.time()
    return seconds + micros / 1e6
