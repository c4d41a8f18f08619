"""State a ControlNet worker keeps per base worker: connection, sessions, memory."""

import mmap
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import zmq
from torch import Tensor

from worker.control import wire
from worker.control.link import Context, Monitor, Socket, open_socket
from worker.control.offers import Offer
from worker.control.server.network import Begun, Network
from worker.control.shared_memory import Place, open_arena

#: A base worker that was not reached after so long has gone.
MEET_S = 5.0
#: One that has not begun a session after so long has forgotten it: it reads between its steps,
#: which may take long, and is noticed at once where it ends.
BEGIN_S = 300.0


@dataclass(slots=True, kw_only=True, eq=False)
class Hosted:
    """One session of some base worker."""

    offer: Offer
    network: Network | None  #: None if it cannot be had
    ended: str = ""  #: why it is over
    is_for_others: bool = False  #: whether another worker may have what this one cannot
    since: float = field(default_factory=time.monotonic)
    begun: Begun | None = None
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def is_forgotten(self) -> bool:
        return self.begun is None and time.monotonic() - self.since > BEGIN_S

    def end(self, reason: str) -> None:
        """Let the thread go that waits for it."""
        self.ended = reason
        self.over.set()


class Peer:
    """One base worker. Belongs to the server's thread."""

    def __init__(self, context: Context, endpoint: str) -> None:
        self.endpoint = endpoint
        self.sessions: dict[str, Hosted] = {}
        self._since = time.monotonic()
        self._socket = open_socket(context, zmq.DEALER)
        self._monitor = Monitor(self._socket)
        self._socket.connect(endpoint)
        self._arenas: dict[str, mmap.mmap | None] = {}  #: by token; None is of another host

    @property
    def sockets(self) -> tuple[Socket, ...]:
        """What has something to read when there is something to do."""
        return (self._socket, self._monitor.socket)

    def is_lost(self) -> bool:
        """Tell whether the base worker has gone."""
        return self._monitor.is_lost()

    @property
    def is_unmet(self) -> bool:
        """Whether it was not reached in time."""
        return not self._monitor.is_met and time.monotonic() - self._since > MEET_S

    def receive(self) -> Iterator[tuple[wire.ToControl, Sequence[bytes]]]:
        """Give what has come, and what is behind it."""
        while self._socket.poll(0):
            head, *data = self._socket.recv_multipart()
            yield wire.read_to_control(head), data

    def send(self, message: wire.Message) -> None:
        """Send a message without tensors."""
        self._socket.send_multipart(wire.frames(message))

    def answer(
        self,
        ask: wire.StepAsk,
        residuals: Sequence[Tensor],
        *,
        first: int,
        total: int,
        split: int,
        held_s: float,
    ) -> None:
        """Send residuals from the first on, or put them where the base worker reads them.

        Those that their place has no room for are sent.
        """
        parts = tuple(wire.spec(each) for each in residuals)
        place = ask.place if ask.place is not None and _fits(parts, ask.place) else None
        memory = self._arena(place) if place is not None else None
        if memory is not None and place is not None:
            at = place.at + sum(of.num_bytes for of in parts[:first])
            for of, residual in zip(parts[first:], residuals[first:], strict=True):
                wire.view(of, memory, at).copy_(residual)
                at += of.num_bytes
        answer = wire.Answer(
            session=ask.session,
            position=ask.position,
            total=total,
            split=split,
            first=first,
            parts=parts[first:],
            is_placed=memory is not None,
            held_s=held_s,
        )
        behind = () if memory is not None else residuals[first:]
        self._socket.send_multipart(wire.frames(answer, behind), copy=False)

    def end(self, hosted: Hosted, reason: str) -> None:
        """Forget a session."""
        self.sessions.pop(hosted.offer.session, None)
        hosted.end(reason)

    def close(self, reason: str) -> None:
        """Forget all of it."""
        for hosted in tuple(self.sessions.values()):
            self.end(hosted, reason)
        self._monitor.close()
        self._socket.close()

    def _arena(self, place: Place) -> mmap.mmap | None:
        if place.token not in self._arenas:
            self._arenas = {place.token: open_arena(place)}  # one after another
        return self._arenas[place.token]


def _fits(parts: Sequence[wire.Spec], place: Place) -> bool:
    return place.room is None or sum(of.num_bytes for of in parts) <= place.room
