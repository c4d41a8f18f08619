"""Offers of ControlNet sessions: how old one is the store's clock says, and no host's."""

import msgspec
import pytest

from core.errors import StoreUnavailable
from worker.control.offers import EXPIRES_S, QUEUE, TASK, Offer, is_stale, offer_by
from worker.control.server.model_cache import ModelCache
from worker.control.server.server import ControlServer

OFFER = Offer(session="s", controlnet="edges", endpoints=("ipc://@nobody",))


class Store:
    """A store with a clock of its own, far from that of this host."""

    def __init__(self):
        self.now, self.kept_s, self.is_away = 5000.25, {}, False

    def time(self):
        if self.is_away:
            raise StoreUnavailable("away")
        return int(self.now), round(self.now % 1 * 1e6)

    def expire(self, name, time):
        self.kept_s[name] = time


class Sender:
    """Keeps what is sent, with all that Celery is told of it."""

    def __init__(self):
        self.sent = []

    def send_task(self, name, args, **options):
        self.sent.append((name, *args, options))


@pytest.fixture
def store():
    return Store()


def offered(store):
    sender = Sender()
    offer_by(sender, store)(OFFER)
    [(name, body, options)] = sender.sent
    return name, msgspec.convert(body, Offer), options


def test_an_offer_bears_no_time_of_the_host_that_makes_it(store):
    name, offer, options = offered(store)
    assert (name, options) == (TASK, {"queue": QUEUE, "expiration": EXPIRES_S})
    assert offer == msgspec.structs.replace(OFFER, offered_at=5000.25)
    assert store.kept_s[QUEUE] > EXPIRES_S


def test_an_offer_is_stale_once_it_has_been_made_again(store):
    _, offer, _ = offered(store)
    store.now += EXPIRES_S
    assert not is_stale(store, offer)
    store.now += 0.1
    assert is_stale(store, offer)


def test_an_offer_is_taken_where_nobody_says_how_old_it_is(store):
    _, offer, _ = offered(store)
    store.now += 3600.0
    assert not is_stale(store, OFFER), "of a version that does not say"
    store.is_away = True
    assert not is_stale(store, offer)


def test_nothing_is_loaded_for_a_stale_offer():
    loaded = []
    server = ControlServer(
        ModelCache(loaded.append, 2**30), max_rows=1, is_stale=lambda offer: offer is OFFER
    )
    server.start()
    try:
        assert server.serve(OFFER) == "it has been offered again since"
    finally:
        server.close()
    assert not loaded
