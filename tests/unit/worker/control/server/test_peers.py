import os
import time

import msgspec
import pytest
import torch
import zmq

from cli.stack.ports import free_port
from core.errors import EngineError
from worker.control import wire
from worker.control.link import open_socket
from worker.control.offers import Offer
from worker.control.server import peers
from worker.control.server.peers import Peer
from worker.control.server.server import ControlServer
from worker.control.shared_memory import Place, SharedMemory

RESIDUALS = [torch.full((8,), 1.0), torch.full((8,), 2.0)]
BYTES = 32  #: of each
SPEC = wire.spec(torch.zeros(1))


@pytest.fixture
def base():
    """Give what a base worker hears with, and a peer that tells it."""
    context = zmq.Context()
    socket = open_socket(context, zmq.ROUTER)
    peer = Peer(context, f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}")
    yield socket, peer
    peer.close("over")
    socket.close()
    context.destroy()


def heard(base, room, *, first=0):
    """Have residuals sent from the first on; give the answer, what is behind it, and the memory."""
    socket, peer = base
    arena = SharedMemory(4096)
    ask = wire.StepAsk(
        session="s",
        position=0,
        time=1.0,
        scale=1.0,
        latents=wire.spec(torch.zeros(1)),
        place=arena.take(1024).place(0, room),
    )
    peer.answer(ask, RESIDUALS, first=first, total=2, split=1, held_s=0.0)
    assert socket.poll(5000)
    _, head, *behind = socket.recv_multipart()
    at = ask.place.at
    written = torch.frombuffer(arena.memory, dtype=torch.float32, count=16, offset=at)
    return wire.read_to_base(head), behind, written.clone()


@pytest.mark.parametrize("room", [2 * BYTES, None], ids=["exactly", "untold"])
def test_residuals_that_fit_their_place_are_put_there(base, room):
    answer, behind, written = heard(base, room)
    assert (answer.is_placed, behind) == (True, [])
    assert torch.equal(written, torch.cat(RESIDUALS))


@pytest.mark.parametrize("first", [0, 1])
def test_residuals_larger_than_their_place_come_behind_the_answer(base, first):
    answer, behind, written = heard(base, 2 * BYTES - 1, first=first)
    assert not answer.is_placed
    told = [wire.tensor(of, data) for of, data in zip(answer.parts, behind, strict=True)]
    assert torch.equal(torch.cat(told), torch.cat(RESIDUALS[first:]))
    assert not written.any(), "nothing of it is written"


def test_a_place_without_its_room_is_read_as_one_of_an_older_worker():
    place = SharedMemory(4096).take(8).place(0, 8)
    told = {"path": place.path, "token": place.token, "size": place.size, "at": place.at}
    assert msgspec.convert(told, Place).room is None


class NoNetworks:
    """Has no ControlNet."""

    def take(self, name):
        raise EngineError(f"{name} is gone")


def test_a_base_worker_that_cannot_be_reached_leaves_no_socket_and_one_that_is_idle_stays(
    monkeypatch,
):
    context, server = zmq.Context(), ControlServer(NoNetworks(), max_rows=1)
    socket = open_socket(context, zmq.ROUTER)
    idle = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
    server.start()

    def offer(endpoint):
        with pytest.raises(EngineError, match="gone"):
            server.serve(Offer(session="s", controlnet="edges", endpoints=(endpoint,)))

    def told():
        assert socket.poll(5000)
        return [socket.recv_multipart()[0] for _ in ("taken", "failed")]

    away = [f"tcp://127.0.0.1:{free_port()}" for _ in range(10)]
    offer(idle)
    known = told()
    monkeypatch.setattr(peers, "MEET_S", 0.1)  # the idle one is met by now, however slowly
    before = len(os.listdir("/proc/self/fd"))
    for endpoint in away:
        offer(endpoint)
    deadline = time.monotonic() + 20
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before
    offer(idle)
    assert told() == known
    begun = wire.Begin(session="of yesterday", condition=SPEC, text=SPEC, added={})
    socket.send_multipart([known[0], *wire.frames(begun, [torch.zeros(1)] * 2)])
    assert socket.poll(5000)
    answer = wire.read_to_base(socket.recv_multipart()[1])
    assert answer == wire.SessionGone(session="of yesterday"), "so that it is offered again"
    server.close()
    socket.close()
    context.destroy()
