"""A ControlNet worker whose ControlNets cannot be had, over real sockets."""

import threading
import time
from types import SimpleNamespace

import pytest

from core.errors import BadWeights, EngineError, ObjectsUnavailable
from tests.control_worker import an_opening
from worker.control.client.remote import RemoteControlNets
from worker.control.server.model_cache import ModelCache
from worker.control.server.server import ControlServer

NETWORK = SimpleNamespace(num_bytes=1, begin=lambda opening: opening, close=lambda: None)


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
        give_up_at = time.monotonic() + 20
        while session.waits_for() is not None:
            assert time.monotonic() < give_up_at
            time.sleep(0.002)
        return session


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
    assert one.ended == [away]


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
