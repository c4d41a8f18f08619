"""How does a session reach whichever ControlNet worker is free? As a task on the queue of all.

Imports no torch: workers of other kinds read this too.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

#: The task that sees one session from its begin to its end.
TASK = "tasks.control"
#: Served by ControlNet workers, which take from it as many sessions as they may have.
QUEUE = "control"

#: An offer that nobody has taken after so long is made again; later ones wait twice as long.
SOON_S = 0.4
#: An offer is of no use after so long: it has been made again.
EXPIRES_S = 2.0


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A session that some ControlNet worker is to take."""

    session: str
    controlnet: str  #: its id
    endpoints: tuple[str, ...]  #: of the base worker; the first that can be reached is taken


class Sender(Protocol):
    """The part of a Celery app that sends."""

    def send_task(
        self, name: str, args: tuple[object, ...], *, queue: str, expires: float
    ) -> object: ...


class Forgetting(Protocol):
    """The part of a Redis client that lets a key go."""

    def expire(self, name: str, time: int) -> object: ...


def offer_by(sender: Sender, client: Forgetting) -> Callable[[Offer], None]:
    """Give what puts offers on the queue; it waits for the broker.

    A queue that nobody serves is forgotten, as offers are made again while they are of use.
    """

    def offer(offer: Offer) -> None:
        args = (msgspec.to_builtins(offer),)
        sender.send_task(TASK, args, queue=QUEUE, expires=EXPIRES_S)
        client.expire(QUEUE, int(4 * EXPIRES_S))

    return offer
