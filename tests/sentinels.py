"""A store that fails over: a server, its replicas, and three sentinels that watch them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis, Sentinel
from redis.exceptions import RedisError

from cli.stack.ports import free_port
from storage.redis.server import find_server_binary
from tests.servers import NEVER, Server, answers_ping, redis_server

SERVICE = "atelier"
DOWN_MS = 1000  #: a server silent for so long is gone; in production ten times that
NUM_SENTINELS = 3


@dataclass
class WatchedServers:
    """Stands for one `Server` where only its address is asked for, and its end."""

    servers: list[Server]
    sentinels: list[Server]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"sentinel://{hosts}/0?service={SERVICE}"

    @property
    def leader(self) -> Server:
        """The server that sentinels send clients to."""
        return next(each for each in self.servers if self.is_led_by(each))

    @property
    def followers(self) -> list[Server]:
        return [each for each in self.servers if not self.is_led_by(each)]

    def is_led_by(self, server: Server) -> bool:
        hosts = [("127.0.0.1", each.port) for each in self.sentinels]
        try:
            _, port = Sentinel(hosts, socket_timeout=1.0).discover_master(SERVICE)  # type: ignore[no-untyped-call]
        except RedisError:  # they are about to choose one
            return False
        return server.port == port and _leads(server.port)

    def fail_over(self) -> None:
        """Kill the leader and wait until another leads."""
        others = self.followers
        self.leader.kill()
        wait_until(lambda: any(self.is_led_by(each) for each in others))

    @staticmethod
    def follow(server: Server, leader: Server) -> None:
        with _client(server.port) as client:
            client.execute_command("REPLICAOF", "127.0.0.1", leader.port)

    def stop(self) -> None:
        for each in (*self.sentinels, *self.servers):
            each.stop()


def watched(folder: Path, num_followers: int = 1) -> WatchedServers:
    """Start them all, the replicas up to date."""
    servers = [_server(folder / f"server-{number}") for number in range(1 + num_followers)]
    for server in servers[1:]:
        WatchedServers.follow(server, servers[0])
        with _client(server.port) as follower:
            wait_until(partial(_follows, follower))
    sentinels = [
        _sentinel(folder / f"sentinel-{number}", servers[0].port) for number in range(NUM_SENTINELS)
    ]
    for each in sentinels:
        with _client(each.port) as sentinel:
            wait_until(partial(_sees_all, sentinel, num_followers))
    return WatchedServers(servers, sentinels)


def _server(folder: Path) -> Server:
    folder.mkdir(parents=True)
    return redis_server(folder)


def _sentinel(folder: Path, port: int) -> Server:
    folder.mkdir(parents=True)
    own = free_port()
    config = folder / "sentinel.conf"
    config.write_text(
        f"bind 127.0.0.1\nport {own}\ndir {folder}\n"
        f"sentinel monitor {SERVICE} 127.0.0.1 {port} 2\n"
        f"sentinel down-after-milliseconds {SERVICE} {DOWN_MS}\n"
        f"sentinel failover-timeout {SERVICE} 5000\n"
    )
    return Server(
        command=[str(find_server_binary()), str(config), "--sentinel"],
        port=own,
        url=f"127.0.0.1:{own}",
        log=folder / "sentinel.log",
        is_ready=answers_ping,
    ).start()


def _follows(follower: Redis) -> bool:
    seen: Any = follower.info("replication")
    return bool(seen["master_link_status"] == "up")


def _sees_all(sentinel: Redis, num_followers: int) -> bool:
    seen: Any = sentinel.sentinel_master(SERVICE)
    found = seen["num-slaves"], seen["num-other-sentinels"]
    return bool(found == (num_followers, NUM_SENTINELS - 1))


def _leads(port: int) -> bool:
    with _client(port) as client:
        try:
            return bool(client.info("replication")["role"] == "master")
        except RedisError:
            return False


def _client(port: int) -> Redis:
    return Redis(port=port, socket_timeout=2.0, retry=NEVER)


def wait_until(is_so: Callable[[], bool], within_s: float = 150.0) -> None:
    until = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)
