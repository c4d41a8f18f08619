"""Whoever is connected follows the server that sentinels call leader, while the old one lives."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu import Consumer, Exchange, Queue
from kombu.asynchronous import Hub
from redis import Redis

from cli.stack.ports import free_port
from core.settings import Settings
from storage.redis.connect import connect, connect_sync
from storage.redis.server import find_server_binary
from tasks.app import make_app
from tests.sentinels import SERVICE, wait_until
from tests.servers import Server, answers_ping, redis_server

pytestmark = pytest.mark.integration

WITHIN_S = 15.0


class Pair:
    """Two servers that both believe that they lead, and a sentinel that says which one does."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = redis_server(folder / "first"), redis_server(folder / "second")
        own = free_port()
        config = folder / "sentinel.conf"
        config.write_text(f"bind 127.0.0.1\nport {own}\ndir {folder}\n")
        self.sentinel = Server(
            command=[str(find_server_binary()), str(config), "--sentinel"],
            port=own,
            url=f"sentinel://127.0.0.1:{own}/0?service={SERVICE}",
            log=folder / "sentinel.log",
            is_ready=answers_ping,
        ).start()
        self._say(self.first)

    def switch(self) -> None:
        with Redis(port=self.sentinel.port) as sentinel:
            sentinel.sentinel_remove(SERVICE)
        self._say(self.second)

    def is_waited_at(self) -> bool:
        """Whether somebody waits for a word from the first."""
        with Redis(port=self.first.port) as first:
            return bool(first.info("clients")["blocked_clients"])

    def _say(self, leader: Server) -> None:
        with Redis(port=self.sentinel.port) as sentinel:
            sentinel.sentinel_monitor(SERVICE, "127.0.0.1", leader.port, 1)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    yield found
    for each in (found.sentinel, found.first, found.second):
        each.stop()


async def test_tasks_leave_a_server_that_leads_no_more_though_it_answers(pair):
    redis = connect(pair.sentinel.url)
    waiting = asyncio.create_task(redis.execute_command("BLPOP", "bell", 60))
    await redis.set("before", 1)
    async with asyncio.timeout(WITHIN_S):
        while not pair.is_waited_at():
            await asyncio.sleep(0.01)
    pair.switch()
    with Redis(port=pair.second.port) as second:
        second.rpush("bell", "rung")
        async with asyncio.timeout(WITHIN_S):
            while not waiting.done():
                await redis.set("after", 1)
                await asyncio.sleep(0.05)
        assert waiting.result() == (b"bell", b"rung")
        assert (second.exists("before"), second.exists("after")) == (0, 1)
    await redis.aclose()


def test_threads_leave_a_server_that_leads_no_more_though_it_answers(pair):
    redis, heard = connect_sync(pair.sentinel.url), []
    redis.set("before", 1)
    thread = threading.Thread(target=lambda: heard.append(redis.blpop("bell", 4)))
    thread.start()
    wait_until(pair.is_waited_at, WITHIN_S)
    pair.switch()
    with Redis(port=pair.second.port) as second:
        second.rpush("bell", "rung")
        wait_until(lambda: redis.set("after", 1) and heard, WITHIN_S)
        assert heard == [(b"bell", b"rung")]
        assert (second.exists("before"), second.exists("after")) == (0, 1)
    thread.join()
    redis.close()


def test_pops_leave_a_server_that_leads_no_more_though_it_answers_them(pair, tmp_path):
    app = make_app(Settings(redis_url=pair.sentinel.url, data_dir=tmp_path))
    heard: list[object] = []
    queue = Queue("q", Exchange("q"), routing_key="q")
    with app.connection_for_read() as connection:
        hub = Hub()
        connection.register_with_event_loop(hub)
        consumer = Consumer(connection, [queue], accept=["json"], no_ack=True)
        consumer.register_callback(lambda body, message: heard.append(body["word"]))
        consumer.consume()
        ring(app, queue, "of the first")
        turn_until(hub, lambda: heard == ["of the first"])
        pair.switch()
        ring(app, queue, "of the second")  # by a connection of its own, which asks who leads
        turn_until(hub, lambda: heard == ["of the first", "of the second"])
        hub.close()


def ring(app, queue, word):
    with app.connection_for_write() as connection:
        connection.Producer().publish(
            {"word": word},
            serializer="json",
            routing_key="q",
            exchange=queue.exchange,
            declare=[queue],
        )


def turn_until(hub, is_so):
    turns = hub.create_loop()

    def is_so_after_a_turn():
        next(turns)
        return is_so()

    wait_until(is_so_after_a_turn, WITHIN_S)
