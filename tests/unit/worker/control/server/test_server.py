"""A ControlNet worker whose ControlNets cannot be had, over real sockets."""

import threading
import time
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from core.errors import BadWeights, EngineError, ObjectsUnavailable
from tests.control_worker import an_opening
from worker.control.client.remote import RemoteControlNets
from worker.control.server.model_cache import ModelCache
from worker.control.server.network import Begun
from worker.control.server.server import ControlServer
from worker.control.session import StepQuery
from worker.diffusion.runner import NotReady

NETWORK = SimpleNamespace(num_bytes=1, begin=lambda opening: opening, close=lambda: None)


class HaltingNetwork:
    """A ControlNet whose device comes to a halt until it is released."""

    num_bytes, num_residuals, split = 1, 1, 1

    def __init__(self):
        self.released = threading.Event()

    def begin(self, opening):
        return Begun(condition=opening.condition, text=opening.text, added=opening.added)

    def residuals(self, steps, tell):
        self.released.wait(20.0)
        found = [[step.latents + step.scale] for step in steps]
        tell(found)
        return found

    def close(self):
        pass


class Rig:
    """A server and a base worker; each offer is served by a thread."""

    def __init__(self, *loads):
        self.loads, self.ended, self.died = list(loads), [], threading.Event()
        self.server = ControlServer(
            ModelCache(self.load, 2), max_rows=4, least_hang_s=0.2, die=self.died.set
        )
        self.server.start()
        self.remote = RemoteControlNets(self.offer, arena_bytes=64, patience_s=20.0)

    def load(self, name):
        found = self.loads.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def offer(self, offer):
        threading.Thread(target=self.serve, args=(offer,), daemon=True).start()

    def serve(self, offer):
        try:
            self.ended.append(self.server.serve(offer))
        except Exception as error:
            self.ended.append(error)

    def begin(self):
        session = self.remote.open(an_opening())
        self.wait_for(session)
        return session

    def wait_for(self, session):
        give_up_at = time.monotonic() + 20
        while session.waits_for() is not None:
            assert time.monotonic() < give_up_at
            time.sleep(0.002)


@pytest.fixture
def rig():
    rigs = []

    def rig(*loads):
        rigs.append(Rig(*loads))
        return rigs[-1]

    yield rig
    for each in rigs:
        each.remote.close()
        each.server.close()


def test_what_the_store_does_not_give_is_offered_again(rig):
    away = ObjectsUnavailable("the store")
    one = rig(away, NETWORK)
    session = one.begin()
    assert session.num_offers >= 2
    assert one.ended[0] is away


def test_what_nobody_can_load_fails_its_job(rig):
    with pytest.raises(EngineError, match="truncated"):
        rig(BadWeights("edges: truncated")).begin()


def test_a_process_whose_device_computes_no_more_ends(rig):
    class AcceleratorError(RuntimeError):
        pass

    one = rig(AcceleratorError("an illegal memory access was encountered"))
    with pytest.raises(EngineError):  # as nothing ends here
        one.begin()
    assert one.died.is_set()


def test_a_process_whose_device_hangs_ends(rig):
    released = threading.Event()
    begins = iter([lambda: True] * 5 + [partial(released.wait, 20.0)])

    def begin(opening):
        next(begins)()
        return opening

    network = SimpleNamespace(num_bytes=1, begin=begin, close=lambda: None)
    one = rig(network)
    for _ in range(5):
        one.begin().close()
    time.sleep(1.0)
    assert not one.died.is_set()
    one.begin()
    assert one.died.wait(20.0)
    released.set()


@pytest.fixture
def wait_long(monkeypatch):
    """Have base workers wait a moment for answers; say how to have them wait long again."""
    wait_for = partial(monkeypatch.setattr, "worker.control.client.remote.LATE_S")
    monkeypatch.setattr("worker.control.client.remote.LATE_FACTOR", 0.0)
    wait_for(0.1)
    return partial(wait_for, 20.0)


def ask_of(session):
    return StepQuery(session=session, position=0, time=1.0, latents=torch.zeros(1), scale=2.0)


def test_who_waits_for_a_late_worker_leaves_and_all_is_had_once_it_is_there(rig, wait_long):
    network = HaltingNetwork()
    one = rig(network)
    sessions = [one.begin() for _ in range(3)]
    *asks, _ = [ask_of(session) for session in sessions]
    one.remote.ask(asks)
    with pytest.raises(NotReady, match="late"):
        one.remote.answer(asks[0])
    answer = "a ControlNet worker's answer"
    assert [each.waits_for() for each in sessions] == [answer, answer, None], "each at once"
    peers = [each.peer for each in sessions]
    wait_long()
    network.released.set()
    for ask in asks:
        one.wait_for(ask.session)
    one.remote.ask(asks)  # their step is taken again
    assert [one.remote.answer(ask)[0].tolist() for ask in asks] == [[2.0], [2.0]]
    assert [each.peer for each in sessions] == peers and not any(s.is_suspect for s in sessions)


def test_why_a_late_worker_cannot_compute_is_said_at_once(rig, wait_long):
    network = HaltingNetwork()
    network.residuals = lambda steps, tell: network.released.wait(20.0) and tell(None)
    one = rig(network)
    session = one.begin()
    one.remote.ask([ask_of(session)])
    with pytest.raises(NotReady, match="late"):
        one.remote.answer(ask_of(session))
    network.released.set()
    with pytest.raises(EngineError, match="TypeError"):
        one.wait_for(session)


def test_a_worker_that_is_late_for_too_long_is_left(rig, wait_long, monkeypatch):
    monkeypatch.setattr("worker.control.client.remote.ANSWER_S", 0.5)
    halting = HaltingNetwork()
    one = rig(halting)
    session = one.begin()
    ask = ask_of(session)
    one.remote.ask([ask])
    with pytest.raises(NotReady, match="late"):
        one.remote.answer(ask)
    until = time.monotonic() + 20.0
    while session.peer is not None and time.monotonic() < until:
        session.waits_for()
        time.sleep(0.01)
    assert session.peer is None and session.is_suspect
    wait_long()
    monkeypatch.setattr("worker.control.client.remote.ANSWER_S", 20.0)
    halting.released.set()
    while True:
        one.wait_for(session)
        with suppress(NotReady):  # it was ready for its first session, which is over
            assert one.remote.answer(ask)[0].tolist() == [2.0]
            return
