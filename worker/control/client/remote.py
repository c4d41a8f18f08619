"""Client of ControlNets that run in other processes, on this host or others.

Sessions are offered on a queue, and whichever ControlNet worker takes one connects to us. If it is
lost, the session is offered again and goes on elsewhere: all that it needs is kept here.
"""

import time
from collections.abc import Callable, Sequence

import zmq
from torch import Tensor

from core.errors import ControlUnavailable, EngineError
from core.log import get_logger
from worker.control import wire
from worker.control.client.losses import charge, clear, is_held_back
from worker.control.client.remote_session import RemoteSession, StepTiming
from worker.control.client.residual_buffers import Landing
from worker.control.link import bind_here, open_socket
from worker.control.offers import Courier, Offer
from worker.control.session import Opening, StepQuery
from worker.control.stale import Lag
from worker.control.streamed import Streamed
from worker.diffusion.runner import NotReady

log = get_logger(__name__)

#: How often a worker that does not answer is looked for.
PING_S = 0.1
#: A worker that is there and has not been heard of for so long has come to a halt.
ANSWER_S = 60.0
#: An image that has waited for an answer so long, and so many times what its step took until then,
#: leaves its batch: others step meanwhile, and its own step is taken again.
LATE_S, LATE_FACTOR = 5.0, 5.0


class RemoteControlNets:
    """The ControlNets of other processes. Belongs to the engine's thread."""

    def __init__(
        self,
        offer: Callable[[Offer], object],
        *,
        arena_bytes: int,
        patience_s: float,
        host: str = "",
    ) -> None:
        """Listen; `offer` puts a session on the queue, and may take its time.

        `host`: the address that ControlNet workers of other hosts reach us at; none if empty.
        """
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = open_socket(self._context, zmq.ROUTER)
        self._socket.router_mandatory = True
        self._endpoints = bind_here(self._socket, host)
        self._courier = Courier(offer)
        self._patience_s = patience_s
        self._landing = Landing(arena_bytes)
        self._sessions: dict[str, RemoteSession] = {}
        self._lags: dict[bytes, Lag] = {}
        self._pinged_at = 0.0  #: monotonic s

    def open(self, opening: Opening) -> RemoteSession:
        """Offer a session to the ControlNet workers; do not wait for a taker."""
        session = RemoteSession(owner=self, opening=opening, waits_since=time.monotonic())
        self._sessions[session.id] = session
        self._offer_again(session)
        return session

    def ask(self, asks: Sequence[StepQuery]) -> None:
        """Send each step to the worker of its session, once."""
        fresh: dict[bytes, list[tuple[RemoteSession, StepQuery]]] = {}
        for ask in asks:
            session = _remote(ask)
            if ask.position in session.asked or ask.position in session.answers:
                continue
            self._note_lag(session, ask.position)
            session.note(ask)
            if session.peer is not None:
                fresh.setdefault(session.peer, []).append((session, ask))
        for peer, together in fresh.items():
            self._send_asks(peer, together)

    def answer(self, ask: StepQuery) -> Streamed:
        """Give residuals that block, one by one, until they have come."""
        session, at = _remote(ask), ask.position
        self._wait(session, lambda: at in session.answers)
        arrived = session.answers[at]

        def find(number: int) -> Tensor:
            self._wait(session, lambda: number < len(arrived.parts))
            return arrived.parts[number]

        return Streamed(arrived.total, find, arrived.split)

    def waits_for(self, session: RemoteSession) -> str | None:
        """See `Session.waits_for`."""
        self._look()
        if session.is_late and self._is_awaited(session):
            return "a ControlNet worker's answer"
        if session.error is not None:
            raise session.error
        if session.peer is not None:
            return None
        if session.num_offers and time.monotonic() - session.waits_since > self._patience_s:
            raise ControlUnavailable(
                f"no ControlNet worker has taken this job within {self._patience_s:g} s: try again,"
                " or have the operator start one"
            )
        self._offer_if_due(session)
        return "a ControlNet worker"

    def is_slow(self, session: RemoteSession) -> bool | None:
        """See `RemoteSession.is_slow`."""
        lag = self._lags.get(session.peer or b"")
        return lag.is_slow if lag is not None else None

    def end(self, session: RemoteSession) -> None:
        """See `Session.close`."""
        if self._sessions.pop(session.id, None) is None:
            return
        if session.peer is not None:
            self._landing.leave(session)
            self._send(session.peer, wire.frames(wire.End(session=session.id)))
        session.asked, session.answers = {}, {}  # who holds the image yet holds none of these

    def close(self) -> None:
        """Let all workers go."""
        for session in tuple(self._sessions.values()):
            self.end(session)
        self._courier.close()
        self._context.destroy(linger=100)

    def _is_awaited(self, session: RemoteSession) -> bool:
        """Tell whether what did not come in time is still to come; a worker at a halt is left."""
        peer, last = session.peer, session.last
        if session.asked and session.error is None and peer is not None and last is not None:
            if time.monotonic() - last.heard_at <= ANSWER_S:
                return True
            self._leave(peer)
        session.is_late = False
        return False

    def _offer_if_due(self, session: RemoteSession) -> None:
        waited_s = time.monotonic() - session.offered_at
        is_due = session.taker is None and waited_s > session.patience_s
        if is_due and not is_held_back(session, self._sessions.values()):
            self._offer_again(session)

    def _offer_again(self, session: RemoteSession) -> None:
        session.offered_at = time.monotonic()
        if not session.num_offers:
            session.waits_since = session.offered_at
        session.num_offers += 1
        offer = Offer(
            session=session.id,
            controlnet=session.opening.controlnet,
            endpoints=self._endpoints,
        )
        self._courier.send(offer)

    def _wait(self, session: RemoteSession, is_there: Callable[[], bool]) -> None:
        """Wait for something that a session has asked for.

        Raises: NotReady if its worker is lost, or late; EngineError if that cannot compute it.
        """
        began = time.monotonic()
        took_s = began - session.last.at if session.last is not None else 0.0
        self._receive_all()
        while not is_there():
            if session.error is not None:
                raise session.error
            if session.peer is None:
                raise NotReady("the ControlNet worker of this job is lost")
            if time.monotonic() - began > min(max(LATE_S, LATE_FACTOR * took_s), ANSWER_S):
                self._note_late(session.peer)
                raise NotReady("the ControlNet worker of this job is late")
            self._socket.poll(int(1000 * PING_S))
            self._look()
        if session.last is not None:
            session.last.note_wait(time.monotonic() - began)

    def _note_late(self, peer: bytes) -> None:
        """Have all who wait for a worker leave their batch, or each would wait as long again."""
        for session in self._sessions.values():
            if session.peer == peer and session.asked:
                session.is_late = True

    def _look(self) -> None:
        """Take what has come, and look whether all workers are there."""
        self._receive_all()
        self._ping_all()

    def _receive_all(self) -> None:
        while True:
            try:
                peer, head, *data = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._receive(peer, wire.read_to_base(head), data)

    def _receive(self, peer: bytes, message: wire.ToBase, data: Sequence[bytes]) -> None:
        session = self._sessions.get(message.session)
        match message:
            case wire.Taken() if session is not None and not session.workers:
                session.taker = peer
            case wire.Ready() if session is not None and session.is_unbegun:
                self._begin(session, peer)
            case wire.Ready() if session is None or session.peer != peer:
                self._send(peer, wire.frames(wire.End(session=message.session)))
            case wire.Answer() if session is not None and session.peer == peer:
                self._take(session, message, data)
            case wire.SessionGone() if session is not None and session.peer == peer:
                self._landing.leave(session)  # what has come may be read yet
                self._reopen(session)
            case wire.SessionGone():
                self._landing.free(message.session)
                if session is not None and session.taker == peer:
                    session.taker = None  # it cannot have what it took: it is offered again
            case wire.Failed() if session is not None and session.peer in (peer, None):
                session.error = EngineError(message.reason)

    def _begin(self, session: RemoteSession, peer: bytes) -> None:
        session.peer, session.taker = peer, None
        self._send(peer, session.beginning())
        self._send_asks(peer, [(session, ask) for ask in session.asked.values()])

    def _send_asks(self, peer: bytes, asks: Sequence[tuple[RemoteSession, StepQuery]]) -> None:
        if not asks:
            return
        steps = tuple(
            wire.StepAsk(
                session=session.id,
                position=ask.position,
                time=ask.time,
                scale=ask.scale,
                latents=wire.spec(ask.latents),
                place=self._landing.place(session, ask),
            )
            for session, ask in asks
        )
        for session, ask in asks:
            session.last = StepTiming(
                position=ask.position, at=time.monotonic(), is_first=session.last is None
            )
        self._send(peer, wire.frames(wire.Steps(steps=steps), [ask.latents for _, ask in asks]))

    def _take(self, session: RemoteSession, answer: wire.Answer, data: Sequence[bytes]) -> None:
        ask = session.asked.get(answer.position)
        if ask is None:
            return
        if self._landing.take(session, ask, answer, data).is_whole:
            del session.asked[answer.position]
            clear(session, self._sessions.values())
        if session.last is not None and session.last.position == answer.position:
            session.last.note_answer(answer.held_s)

    def _note_lag(self, session: RemoteSession, position: int) -> None:
        last = session.last
        if last is None or last.is_first or session.peer is None or not last.held_s:
            return
        lag = self._lags.setdefault(session.peer, Lag())
        steps = max(1, position - last.position)  # not every step of an edit asks
        lag.note(step_s=(time.monotonic() - last.at) / steps, lost_s=last.lost_s)

    def _ping_all(self) -> None:
        """Look whether all workers are there that are in use."""
        now = time.monotonic()
        if now - self._pinged_at < PING_S:
            return
        self._pinged_at = now
        for peer in set().union(*(session.workers for session in self._sessions.values())):
            self._send(peer, wire.frames(wire.Ping()))

    def _send(self, peer: bytes, frames: Sequence[bytes | memoryview]) -> None:
        try:
            self._socket.send_multipart([peer, *frames], zmq.NOBLOCK)
        except zmq.ZMQError:  # it is not connected any more
            self._lose(peer)

    def _leave(self, peer: bytes) -> None:
        """Take the sessions of a worker that is connected, and does not answer, elsewhere."""
        left = [session.id for session in self._sessions.values() if session.peer == peer]
        self._lose(peer)
        for each in left:
            self._send(peer, wire.frames(wire.End(session=each)))

    def _lose(self, peer: bytes) -> None:
        """Offer the sessions of a worker again, and let it write where nobody reads."""
        self._lags.pop(peer, None)
        lost = [session for session in self._sessions.values() if peer in session.workers]
        if not lost:
            return
        log.warning("control_worker_lost", sessions=len(lost))
        self._landing.abandon()
        charge(lost)
        for session in lost:  # the first has a worker for itself, before the others
            session.is_suspect = True
            self._reopen(session)

    def _reopen(self, session: RemoteSession) -> None:
        session.taker = session.peer = session.block = session.last = None
        session.num_offers = 0
        if session.error is None and not is_held_back(session, self._sessions.values()):
            self._offer_again(session)


def _remote(ask: StepQuery) -> RemoteSession:
    assert isinstance(ask.session, RemoteSession)
    return ask.session
