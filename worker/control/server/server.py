"""ControlNet server: one process computes residuals for many base workers.

Each session has a thread of its own, which loads its ControlNet and then waits; all connections,
and all computing, belong to one thread more.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

import zmq
from torch import Tensor

from core.errors import AtelierError, ObjectsUnavailable
from core.log import get_logger, log_errors
from worker.control import wire
from worker.control.link import Context, choose
from worker.control.offers import Offer
from worker.control.server.compute_watch import ComputeWatch
from worker.control.server.model_cache import ModelCache
from worker.control.server.network import ControlStep, Network
from worker.control.server.peers import Hosted, Peer
from worker.control.server.step_batching import StepQueue, WaitingStep
from worker.control.session import Opening
from worker.diffusion.runner import breaks_device
from worker.futures import tried

log = get_logger(__name__)

T = TypeVar("T")

#: How often is looked for sessions that nobody begins.
_TICK_MS = 500
_WAKE = "inproc://wake"
#: Of all computing, by which its stack is found.
THREAD = "controlnets"


class ControlServer:
    """The sessions of one ControlNet worker. `serve` may be called from any thread."""

    def __init__(
        self,
        residents: ModelCache[Network],
        *,
        max_rows: int,
        least_hang_s: float = 30.0,
        expected_s: float | None = None,
        is_stale: Callable[[Offer], bool] = lambda offer: False,
        die: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare; `is_stale` tells which offers have been made again since.

        `die` ends this process: its device can compute nothing more, and others take its sessions.
        So it does where one call hangs, which none does that takes less than `least_hang_s`; the
        first of its kind should take `expected_s` (None: nobody can say).
        """
        self._residents = residents
        self._is_stale = is_stale
        self._die = die
        self._context: Context = zmq.Context()
        self._wake = self._context.socket(zmq.PULL)
        self._wake.bind(_WAKE)
        self._poller = zmq.Poller()
        self._poller.register(self._wake, zmq.POLLIN)
        self._new: SimpleQueue[Offer | Hosted] = SimpleQueue()  #: taken, then in memory
        self._peers: dict[str, Peer] = {}  #: by endpoint
        self._turns = StepQueue(max_rows)
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._watch = ComputeWatch(THREAD, least_s=least_hang_s, expected_s=expected_s, on_hang=die)

    def start(self) -> None:
        """Serve from a thread of its own, and watch that."""
        self._thread.start()
        self._watch.start()

    def close(self) -> None:
        """End all sessions."""
        self._is_stopped = True
        self._ring()
        self._thread.join()
        self._watch.close()
        self._context.destroy(linger=0)

    def serve(self, offer: Offer) -> str:
        """See a session from its begin to its end; say why it is over.

        Raises: whatever keeps its ControlNet away, which its base worker is told too.
        """
        if self._is_stale(offer):  # for it nothing is loaded, and nobody is told that it is taken
            return "it has been offered again since"
        self._pass_on(offer)
        network = self._tried(partial(self._residents.take, offer.controlnet))
        if isinstance(network, Exception):
            reason = str(network) if isinstance(network, AtelierError) else repr(network)
            is_for_others = isinstance(network, ObjectsUnavailable)
            self._host(Hosted(offer=offer, network=None, ended=reason, is_for_others=is_for_others))
            raise network
        try:
            return self._host(Hosted(offer=offer, network=network))
        finally:
            self._residents.release(offer.controlnet)

    def _tried(self, call: Callable[[], T]) -> T | Exception:
        """Give what a call returns or raises, unless nothing can be computed here any more."""
        result = tried(call)
        if isinstance(result, Exception) and breaks_device(result):
            log.critical("device_unusable", exc_info=result)
            self._die()
        return result

    def _host(self, hosted: Hosted) -> str:
        self._pass_on(hosted)
        hosted.over.wait()
        return hosted.ended

    def _pass_on(self, new: Offer | Hosted) -> None:
        self._new.put(new)
        self._ring()

    def _ring(self) -> None:
        with self._context.socket(zmq.PUSH) as bell:
            bell.linger = 1000
            bell.connect(_WAKE)
            bell.send(b"")

    # from the server's own thread

    def _run(self) -> None:
        while not self._is_stopped:
            with log_errors(log, "control_server_failed"):
                self._poller.poll(0 if len(self._turns) else _TICK_MS)
                self._receive_all()
                self._compute(self._turns.take())
        for peer in tuple(self._peers.values()):
            for session in peer.sessions:  # else they count it as a worker that was lost
                peer.send(wire.SessionGone(session=session))
            self._drop(peer, "the ControlNet worker is shutting down")

    def _receive_all(self) -> None:
        while self._wake.poll(0):
            self._wake.recv()
        while not self._new.empty():
            new = self._new.get()
            self._add(new) if isinstance(new, Hosted) else self._say_taken(new)
        for peer in tuple(self._peers.values()):
            for message, data in peer.receive():
                self._receive(peer, message, data)
            for hosted in tuple(peer.sessions.values()):
                if hosted.is_forgotten:
                    peer.end(hosted, "the base worker did not begin it")
            if peer.is_lost():
                self._drop(peer, "the base worker is gone")
            elif peer.is_unmet:
                self._drop(peer, "the base worker cannot be reached")

    def _say_taken(self, offer: Offer) -> None:
        """Let a base worker know us while we load, so that it notices if we are lost."""
        with suppress(AtelierError):  # it has gone, which the session says once it is here
            self._peer(choose(offer.endpoints)).send(wire.Taken(session=offer.session))

    def _add(self, hosted: Hosted) -> None:
        """Tell a base worker that its session can begin."""
        offer = hosted.offer
        try:
            peer = self._peer(choose(offer.endpoints))
        except AtelierError as error:
            hosted.end(str(error))
            return
        if hosted.network is None:
            peer.send(_refusal(hosted))
            hosted.over.set()
            return
        if offer.session in peer.sessions:  # it was offered again while its ControlNet was loaded
            hosted.end("this worker has it already")
        else:
            peer.sessions[offer.session] = hosted
        peer.send(wire.Ready(session=offer.session))  # or it was offered again for want of answers

    def _peer(self, endpoint: str) -> Peer:
        if endpoint not in self._peers:
            peer = self._peers[endpoint] = Peer(self._context, endpoint)
            for each in peer.sockets:
                self._poller.register(each, zmq.POLLIN)
        return self._peers[endpoint]

    def _drop(self, peer: Peer, reason: str) -> None:
        for each in peer.sockets:
            self._poller.unregister(each)
        peer.close(reason)
        del self._peers[peer.endpoint]

    def _receive(self, peer: Peer, message: wire.ToControl, data: Sequence[bytes]) -> None:
        match message:
            case wire.Begin():
                self._begin(peer, message, data)
            case wire.Steps():
                for ask, latents in zip(message.steps, data, strict=True):
                    self._note(peer, ask, latents)
            case wire.End():
                if hosted := peer.sessions.get(message.session):
                    peer.end(hosted, "its image is made, or given up")
                peer.send(wire.SessionGone(session=message.session))

    def _begin(self, peer: Peer, message: wire.Begin, data: Sequence[bytes]) -> None:
        hosted = peer.sessions.get(message.session)
        if hosted is None or hosted.network is None:
            peer.send(wire.SessionGone(session=message.session))
            return
        condition, text, *added = data
        opening = Opening(
            controlnet=hosted.offer.controlnet,
            condition=wire.tensor(message.condition, condition),
            text=wire.tensor(message.text, text),
            added={
                name: wire.tensor(of, frame)
                for (name, of), frame in zip(message.added.items(), added, strict=True)
            },
        )
        kind = (type(hosted.network), *opening.condition.shape)
        with self._watch.computing(opening.controlnet, kind):
            begun = self._tried(partial(hosted.network.begin, opening))
        if isinstance(begun, Exception):
            self._fail(peer, hosted, begun)
        else:
            hosted.begun = begun

    def _note(self, peer: Peer, ask: wire.StepAsk, data: bytes) -> None:
        hosted = peer.sessions.get(ask.session)
        if hosted is None or hosted.network is None or hosted.begun is None:
            peer.send(wire.SessionGone(session=ask.session))
            return
        latents = wire.tensor(ask.latents, data)
        step = ControlStep(begun=hosted.begun, latents=latents, time=ask.time, scale=ask.scale)
        self._turns.add(
            WaitingStep(peer=peer, hosted=hosted, network=hosted.network, step=step, ask=ask)
        )

    def _compute(self, together: Sequence[WaitingStep]) -> None:
        """Compute steps in one call, or one by one if that fails: then the guilty one is known."""
        if not together:
            return

        def answer(found: Sequence[Sequence[Tensor]]) -> None:
            self._watch.note_progress()
            for asked, residuals in zip(together, found, strict=True):
                asked.answer(residuals)

        steps, first = [asked.step for asked in together], together[0]
        with self._watch.computing(first.hosted.offer.controlnet, _kind_of(together)):
            computed = self._tried(partial(first.network.residuals, steps, answer))
        if not isinstance(computed, Exception):
            return
        if len(together) == 1:
            self._fail(first.peer, first.hosted, computed)
        for asked in together if len(together) > 1 else ():
            self._compute([asked])

    def _fail(self, peer: Peer, hosted: Hosted, error: Exception) -> None:
        reason = f"ControlNet {hosted.offer.controlnet}: {type(error).__name__}: {error}"
        log.error("control_session_failed", reason=reason)
        peer.send(wire.Failed(session=hosted.offer.session, reason=reason))
        peer.end(hosted, reason)


def _kind_of(together: Sequence[WaitingStep]) -> Hashable:
    """Name what calls have in common that take as long."""
    rows = sum(asked.rows for asked in together)
    return type(together[0].network), *together[0].step.begun.condition.shape[1:], rows


def _refusal(hosted: Hosted) -> wire.ToBase:
    """Say that a session cannot be had here; where others may have it, that it is offered again."""
    session = hosted.offer.session
    if hosted.is_for_others:
        return wire.SessionGone(session=session)
    return wire.Failed(session=session, reason=hosted.ended)
