"""Bells on their way from the store to RabbitMQ, which a stand-in is here."""

import pytest

from core.errors import StoreUnavailable
from storage.redis.connect import connect_sync
from storage.redis.keys import STATS
from tasks.messages import UNREADABLE, Unreadable, envelope
from tasks.upkeep.relay import STALE_S, BellRelay, MissingBells
from tests.rig import new_job
from tests.servers import redis_server

pytestmark = pytest.mark.integration
QUEUE = "gen.slow"


class Ringing:
    """Notes what is rung."""

    def __init__(self):
        self.rung = []
        self.is_away = False
        self.heard = 0  #: bells that workers took, but made nothing for

    def ring(self, queue, message):
        if self.is_away:
            raise StoreUnavailable("RabbitMQ: away")
        if message == b"nonsense":
            raise Unreadable("nonsense")
        self.rung.append((queue, message))

    def waiting(self, queue):
        return len(self.rung) - self.heard


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = redis_server(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def client(server):
    with connect_sync(server.url) as client:
        client.flushall()
        client.sadd("queues", QUEUE)
        yield client


def a_message():
    return envelope(new_job().id, QUEUE, 0).encode()


def test_messages_are_rung_in_their_order_of_every_priority(client):
    first, second, late = a_message(), a_message(), a_message()
    client.lpush(QUEUE, first, second)
    client.lpush(f"{QUEUE}\x06\x166", late)
    bells = Ringing()
    relay = BellRelay(client, bells)
    assert (relay.move(0.1), relay.move(0.1), relay.move(0.1)) == (2, 1, 0)
    assert bells.rung == [(QUEUE, first), (QUEUE, second), (QUEUE, late)]


def test_what_cannot_be_rung_is_in_the_store_again_as_it_was(client):
    messages = [a_message() for _ in range(3)]
    client.lpush(QUEUE, *messages)
    bells = Ringing()
    bells.is_away = True
    with pytest.raises(StoreUnavailable):
        BellRelay(client, bells).move(0.1)
    assert client.lrange(QUEUE, 0, -1) == messages[::-1]


def test_what_is_no_message_is_dropped_and_counted(client):
    good = a_message()
    client.lpush(QUEUE, b"nonsense", good)
    bells = Ringing()
    BellRelay(client, bells).move(0.1)
    assert bells.rung == [(QUEUE, good)]
    assert client.hget(STATS, UNREADABLE) == b"1"


def test_bells_are_rung_anew_once_fewer_ring_than_jobs_wait_for_a_while(client):
    for number in range(3):
        client.zadd(f"waiting:{QUEUE}", {f"j{number}": number})
        client.hset(f"job:j{number}", "message", f"of j{number}")
    bells = Ringing()
    missing = MissingBells(client, bells)
    bells.ring(QUEUE, b"of j2")
    assert missing.run(now=0.0) == 0
    assert missing.run(now=STALE_S) == 2
    assert bells.rung[1:] == [(QUEUE, b"of j0")] * 2
    assert missing.run(now=2 * STALE_S) == 0
    bells.heard = 1
    assert (missing.run(now=3 * STALE_S), missing.run(now=4 * STALE_S)) == (0, 1)


def test_messages_that_have_not_gone_yet_are_not_missing(client):
    client.zadd(f"waiting:{QUEUE}", {"j1": 1})
    client.lpush(QUEUE, a_message())
    missing = MissingBells(client, Ringing())
    assert (missing.run(now=0.0), missing.run(now=10.0)) == (0, 0)
