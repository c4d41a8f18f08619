"""What does a base worker make of residuals that come one by one, from whoever sends them?"""

from queue import SimpleQueue

import pytest
import torch
import zmq

from worker.control import wire
from worker.control.client.remote import RemoteControlNets
from worker.control.session import Opening, StepQuery
from worker.control.shared_memory import open_arena
from worker.control.streamed import Streamed
from worker.diffusion.runner import NotReady

RESIDUALS = [torch.full((1, 2, 4), float(at)) for at in range(3)]


class Peer:
    """A ControlNet worker by hand: it sends what a test says."""

    def __init__(self, context, offer):
        self.session = offer.session
        self._socket = context.socket(zmq.DEALER)
        self._socket.linger = 1000
        self._socket.connect(offer.endpoints[0])
        self._send(wire.Ready(session=self.session))

    def _send(self, message, tensors=()):
        self._socket.send_multipart(wire.frames(message, tensors))

    def next(self, kind):
        """Wait for a message of a kind."""
        while not isinstance(
            message := wire.read_to_control(self._socket.recv_multipart()[0]), kind
        ):
            pass
        return message

    def give(self, ask, first, end):
        """Answer with some of the residuals."""
        parts = RESIDUALS[first:end]
        memory = open_arena(ask.place) if ask.place else None
        if memory is not None:
            for at, part in enumerate(parts, first):
                wire.view(wire.spec(part), memory, ask.place.at + at * part.nbytes).copy_(part)
        answer = wire.Answer(
            split=1,
            session=self.session,
            position=ask.position,
            total=len(RESIDUALS),
            first=first,
            parts=tuple(map(wire.spec, parts)),
            is_placed=memory is not None,
            held_s=0.01,
        )
        self._send(answer, () if memory is not None else parts)

    def leave(self):
        self._send(wire.SessionGone(session=self.session))

    def die(self):
        self._socket.close(linger=0)


class Base:
    """A base worker with one session."""

    def __init__(self, context):
        self.offers = SimpleQueue()
        self.remote = RemoteControlNets(self.offers.put, arena_bytes=2**16, patience_s=20.0)
        empty = torch.zeros(1, 2, 4)
        self.session = self.remote.open(
            Opening(controlnet="edges", condition=empty, text=empty, added={})
        )
        self._context = context
        self.peers = []

    def meet(self):
        peer = Peer(self._context, self.offers.get())
        self.peers.append(peer)
        while self.session.waits_for() is not None:
            pass
        peer.next(wire.Begin)
        return peer

    def ask(self, position):
        ask = StepQuery(
            session=self.session, position=position, time=1.0, latents=RESIDUALS[0], scale=1.0
        )
        self.remote.ask([ask])
        return ask


@pytest.fixture
def base():
    with zmq.Context() as context:
        base = Base(context)
        yield base
        base.remote.close()
        for peer in base.peers:
            peer.die()


def test_a_residual_is_read_as_soon_as_it_has_come(base):
    peer = base.meet()
    for position in range(2):  # behind the answer, then where both can see it
        ask = base.ask(position)
        [told] = peer.next(wire.Steps).steps
        assert (told.place is not None) == (position == 1)
        peer.give(told, 0, 1)
        residuals = base.remote.answer(ask)
        assert (len(residuals), residuals.split) == (3, 1)
        assert torch.equal(residuals[0], RESIDUALS[0])
        peer.give(told, 1, 3)
        assert all(map(torch.equal, residuals, RESIDUALS))


def test_whoever_takes_over_from_a_lost_worker_sends_what_is_left_too(base):
    first = base.meet()
    ask = base.ask(0)
    first.give(first.next(wire.Steps).steps[0], 0, 1)
    residuals = base.remote.answer(ask)
    assert torch.equal(residuals[0], RESIDUALS[0])
    first.die()
    with pytest.raises(NotReady, match="is lost"):
        residuals[1]
    second = base.meet()
    [told] = second.next(wire.Steps).steps
    assert told.position == 0
    second.give(told, 0, 2)
    second.give(told, 2, 3)
    assert all(map(torch.equal, base.remote.answer(ask), RESIDUALS))


def test_memory_is_not_given_away_before_its_writer_has_left(base):
    peer = base.meet()
    for position in range(2):
        ask = base.ask(position)
        [told] = peer.next(wire.Steps).steps
        peer.give(told, 0, 3)
        list(base.remote.answer(ask))
    arena = base.remote._landing._arena
    base.session.close()
    assert len(arena.blocks) == 1
    peer.next(wire.End)
    peer.leave()
    while arena.blocks:
        base.remote._receive_all()


def test_each_is_found_once_when_it_is_read():
    found = []

    def find(at):
        found.append(at)
        return RESIDUALS[at]

    residuals = Streamed(3, find)
    assert residuals[-1] is residuals[2] is RESIDUALS[2]
    assert found == [2]
    assert list(residuals) == RESIDUALS and found == [2, 0, 1]
    with pytest.raises(IndexError):
        residuals[3]
