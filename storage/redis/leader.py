"""Connections to the server that leads, as sentinels say, who are asked again while it is used.

A leader that was only frozen, or is replaced on purpose, believes that it leads until sentinels
tell it otherwise, ten seconds after they have chosen another. Whoever stays with it is refused, or
writes what will be forgotten: connections to it are hung up, also those on which somebody waits.
A connection that was lost asks anew who leads; the client library goes back to the same server.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import redis
import redis.asyncio
from redis.asyncio.connection import AbstractConnection as AsyncConnection
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelPool
from redis.asyncio.sentinel import SentinelManagedConnection as AsyncManaged
from redis.asyncio.sentinel import SentinelManagedSSLConnection as AsyncManagedTls
from redis.connection import Connection
from redis.exceptions import RedisError
from redis.sentinel import (
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

LOOK_S = 1.0  #: between two looks at who leads; longer if a look takes longer


class Looks:
    """When sentinels are asked who leads. Ones that hang cost half of the time at most."""

    def __init__(self) -> None:
        """The first is due at once."""
        self._due_at = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due_at

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look, and nobody else meanwhile; where sentinels cannot tell nothing changes."""
        began, self._due_at = time.monotonic(), float("inf")
        try:
            with suppress(RedisError, OSError, TimeoutError):
                yield
        finally:
            now = time.monotonic()
            self._due_at = now + max(LOOK_S, now - began)


class _Connection(AsyncManaged):
    async def send_packed_command(self, *args: object, **options: object) -> None:
        if not self.is_connected:
            await self.connect()  # type: ignore[no-untyped-call]
        await super().send_packed_command(*args, **options)  # type: ignore[arg-type]


class _TlsConnection(_Connection, AsyncManagedTls):
    pass


class LeaderPool(AsyncSentinelPool, redis.asyncio.BlockingConnectionPool):
    """Connections to the server that leads; who finds none free waits."""

    def __init__(self, *args: object, has_tls: bool, **options: object) -> None:
        """Prepare; nothing is sent."""
        options["connection_class"] = _TlsConnection if has_tls else _Connection
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._looks = Looks()

    async def get_connection(self, *args: object, **options: object) -> AsyncConnection:
        """Take a connection to the server that leads now."""
        if self._looks.is_due:
            with self._looks.looking():
                leader = await self.get_master_address()  # type: ignore[no-untyped-call]
                for each in list(self._in_use_connections):
                    if _address(each) != leader and each._writer is not None:
                        each._writer.transport.abort()
        return await super().get_connection(*args, **options)  # type: ignore[no-untyped-call,no-any-return]

    async def aclose(self) -> None:
        """Close all, those to the sentinels as well."""
        await super().aclose()
        for sentinel in self.sentinel_manager.sentinels:
            await sentinel.aclose()


class _SyncConnection(SentinelManagedConnection):
    def send_packed_command(self, *args: object, **options: object) -> None:
        if self._sock is None:
            self.connect()  # type: ignore[no-untyped-call]
        super().send_packed_command(*args, **options)  # type: ignore[no-untyped-call]


class _SyncTlsConnection(_SyncConnection, SentinelManagedSSLConnection):
    pass


class LeaderSyncPool(SentinelConnectionPool, redis.BlockingConnectionPool):
    """The same for threads."""

    def __init__(self, *args: object, has_tls: bool, **options: object) -> None:
        """Prepare; nothing is sent."""
        options["connection_class"] = _SyncTlsConnection if has_tls else _SyncConnection
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._looks = Looks()

    def get_connection(self, *args: object, **options: object) -> Connection:
        """Take a connection to the server that leads now."""
        if self._looks.is_due:
            with self._looks.looking():
                leader = self.get_master_address()  # type: ignore[no-untyped-call]
                for each in list(self._connections):
                    if _address(each) != leader and each._sock is not None:
                        with suppress(OSError):  # its owner hears of it just now
                            each._sock.shutdown(socket.SHUT_RDWR)
        return super().get_connection(*args, **options)  # type: ignore[no-untyped-call,no-any-return]

    def close(self) -> None:
        """Close all, those to the sentinels as well."""
        super().close()
        for sentinel in self.sentinel_manager.sentinels:
            sentinel.close()


def _address(connection: AsyncConnection | Connection) -> tuple[object, object]:
    return getattr(connection, "host", None), getattr(connection, "port", None)
