"""A ControlNet worker whose ControlNets cannot be had, over real sockets."""

import threading
import time
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
    begins = iter([lambda: True] * 5 + [released.wait])

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


def test_while_an_answer_is_late_others_step_and_it_is_had_once_it_is_there(rig, monkeypatch):
    monkeypatch.setattr("worker.control.client.remote.LATE_S", 0.1)
    monkeypatch.setattr("worker.control.client.remote.LATE_FACTOR", 0.0)
    network = HaltingNetwork()
    one = rig(network)
    session = one.begin()
    ask = StepQuery(session=session, position=0, time=1.0, latents=torch.zeros(1), scale=2.0)
    one.remote.ask([ask])
    with pytest.raises(NotReady, match="late"):
        one.remote.answer(ask)
    peer = session.peer
    assert session.waits_for() == "a ControlNet worker's answer"
    monkeypatch.setattr("worker.control.client.remote.LATE_S", 20.0)
    network.released.set()
    one.wait_for(session)
    one.remote.ask([ask])  # the step is taken again
    streamed = one.remote.answer(ask)
    assert streamed[0].tolist() == [2.0]
    assert session.peer == peer and not session.num_losses


def test_a_worker_that_is_late_for_too_long_is_left(rig, monkeypatch):
    monkeypatch.setattr("worker.control.client.remote.LATE_S", 0.1)
    monkeypatch.setattr("worker.control.client.remote.LATE_FACTOR", 0.0)
    monkeypatch.setattr("worker.control.client.remote.ANSWER_S", 0.5)
    halting = HaltingNetwork()
    one = rig(halting)
    session = one.begin()
    ask = StepQuery(session=session, position=0, time=1.0, latents=torch.zeros(1), scale=2.0)
    one.remote.ask([ask])
    with pytest.raises(NotReady, match="late"):
        one.remote.answer(ask)
    until = time.monotonic() + 20.0
    while session.peer is not None and time.monotonic() < until:
        session.waits_for()
        time.sleep(0.01)
    assert session.peer is None and session.is_suspect
    monkeypatch.setattr("worker.control.client.remote.LATE_S", 20.0)
    halting.released.set()
    one.wait_for(session)
    assert one.remote.answer(ask)[0].tolist() == [2.0]
