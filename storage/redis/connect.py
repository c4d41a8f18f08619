"""Redis connection pools, and conversion of client errors to `StoreUnavailable`.

Where sentinels know which server leads, connections follow it (`storage/redis/leader`). What is
answered meanwhile is `StoreUnavailable`, as of any store.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from core.errors import StoreRefused, StoreUnavailable
from storage.redis.address import OneServer, Sentinels, read_address
from storage.redis.leader import LeaderPool, LeaderSyncPool

TIMEOUT_S = 5.0  #: of one answer; no script of ours takes a tenth of it
CONNECT_TIMEOUT_S = 2.0
SENTINEL_TIMEOUT_S = 0.5  #: of one of them, which does nothing else; then the next is asked
HEALTH_CHECK_S = 25  #: an idle connection is tried after so long before it is used
RETRIES = 4  #: safe: every script may run twice with one effect
MAX_CONNECTIONS = 64
CANCEL_AGAIN_S = 0.5  #: so long a task that was told to end may take before it is told again

Word = str | bytes | int | float  #: one word of a command
Reply = Any  #: what the server answers: the client library does not say its type

#: Answers of a server that refuses to write: out of memory, read-only, without its replicas or its
#: disk. It looks before each command, and in a script before the first that writes, not after that.
_REFUSED = (OutOfMemoryError, ReadOnlyError, MasterDownError)
_REFUSED_CODES = ("NOREPLICAS", "MISCONF")
#: Answers of one that cannot serve now, or is no longer the one that leads, so that it ends what
#: blocks.
_NOT_NOW_CODES = ("BUSY", "UNBLOCKED")
#: What uvloop says, instead of `ConnectionResetError`, of a connection that has just been lost.
_LOST = "the handler is closed"

T = TypeVar("T")

#: What both kinds of connection share.
_OPTIONS: dict[str, Any] = {
    "max_connections": MAX_CONNECTIONS,
    "timeout": TIMEOUT_S,
    "protocol": 2,
    "socket_timeout": TIMEOUT_S,
    "socket_connect_timeout": CONNECT_TIMEOUT_S,
    "socket_keepalive": True,
    "health_check_interval": HEALTH_CHECK_S,
}


class _Retry(AsyncRetry):
    """Asks again where an answer was lost, and takes no refusal for proof after that."""

    async def call_with_retry(
        self,
        do: Callable[[], Awaitable[T]],
        fail: Callable[..., object],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """Do it until it is answered; what refuses to write now may have written at first."""
        tries = count(1)

        async def try_once() -> T:
            next(tries)
            return await do()

        try:
            return await super().call_with_retry(try_once, fail, is_retryable, with_failure_count)
        except ResponseError as error:
            if next(tries) > 2 and _is_refusal(error):
                raise RedisError(f"refused, after an answer was lost: {error}") from error
            raise


def connect(url: str) -> "redis.asyncio.Redis":
    """Open a pool of connections for one event loop; nothing is sent until it is used.

    Raises:
        ConfigurationError: the address cannot be read.
    """
    retry = _Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.05), RETRIES)
    match read_address(url):
        case OneServer(url=server):
            pool = redis.asyncio.BlockingConnectionPool.from_url(server, retry=retry, **_OPTIONS)
        case watched:
            hosts, told = list(watched.sentinels), sentinel_options(watched)
            sentinels = redis.asyncio.Sentinel(hosts, sentinel_kwargs=told)  # type: ignore[no-untyped-call]
            pool = LeaderPool(watched.service, sentinels, retry=retry, **_of_servers(watched))
    return redis.asyncio.Redis.from_pool(pool)


def connect_sync(url: str) -> redis.Redis:
    """Open a pool of connections for threads; nothing is sent until it is used.

    Raises:
        ConfigurationError: the address cannot be read.
    """
    retry = Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.05), RETRIES)
    match read_address(url):
        case OneServer(url=server):
            pool = redis.BlockingConnectionPool.from_url(server, retry=retry, **_OPTIONS)
        case watched:
            hosts, told = list(watched.sentinels), sentinel_options(watched)
            sentinels = redis.Sentinel(hosts, sentinel_kwargs=told)  # type: ignore[no-untyped-call]
            pool = LeaderSyncPool(watched.service, sentinels, retry=retry, **_of_servers(watched))
    return redis.Redis.from_pool(pool)


def _of_servers(watched: Sentinels) -> dict[str, Any]:
    where = {"db": watched.db, "has_tls": watched.has_tls}
    return _OPTIONS | where | watched.credentials.options


def sentinel_options(watched: Sentinels) -> dict[str, Any]:
    """Say how sentinels themselves are asked."""
    tls = {"ssl": True} if watched.has_tls else {}
    times = {"socket_timeout": SENTINEL_TIMEOUT_S, "socket_connect_timeout": SENTINEL_TIMEOUT_S}
    return times | {"protocol": 2} | watched.sentinel_credentials.options | tls


@contextmanager
def converting_errors(refused: type[StoreUnavailable] = StoreUnavailable) -> Iterator[None]:
    """Turn what the client library raises when Redis cannot serve into `StoreUnavailable`.

    `refused`: raised where the server refuses to write. `StoreRefused` is right of one command
    alone: of several, some may have been taken before.

    Raises:
        StoreUnavailable: no connection, no answer in time, or a server that cannot serve now.
    """
    try:
        yield
    except ResponseError as error:
        if _is_refusal(error):
            raise refused(f"{type(error).__name__}: {error}") from error
        if str(error).startswith(_NOT_NOW_CODES):
            raise StoreUnavailable(str(error)) from error
        raise
    except RuntimeError as error:
        if not str(error).endswith(_LOST):
            raise
        raise StoreUnavailable("the connection was lost") from error
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreUnavailable(str(error) or type(error).__name__) from error


def _is_refusal(error: ResponseError) -> bool:
    return isinstance(error, _REFUSED) or str(error).startswith(_REFUSED_CODES)


async def ask(client: "redis.asyncio.Redis", *words: Word) -> Reply:
    """Send one command.

    Raises:
        StoreRefused: Redis refuses to write now, and nothing was written.
        StoreUnavailable: Redis cannot serve now.
    """
    with converting_errors(StoreRefused):
        return await client.execute_command(*words)  # type: ignore[no-untyped-call]


def ask_sync(client: redis.Redis, *words: Word) -> Reply:
    """Do what `ask` does, for threads; whether nothing was written is not told there."""
    with converting_errors():
        return client.execute_command(*words)  # type: ignore[no-untyped-call]


async def end(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks until they have ended, whatever they raise.

    Once is not enough of one that asks Redis: the client library waits for each command to be
    sent, and `asyncio.wait_for` of Python 3.11 drops a cancellation that comes as it has been.
    """
    every = list(tasks)
    left = {task for task in every if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*every, return_exceptions=True)  # nobody asks for what they raised
