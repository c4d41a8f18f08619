"""Answer for a write once it outlives its server: a second server has it, or the disk.

A server is asked how far others have followed up to the last write of the connection that asks.
That write is a mark, which comes after whatever is asked about, also what an earlier call wrote.
It must have what is asked about: another than the one that was written to may lead by now.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from core.errors import ConfigurationError, StoreUnavailable
from core.settings import Durability
from storage.redis.address import Sentinels, read_address
from storage.redis.connect import Reply, Word, converting_errors

#: Milliseconds that a second server, or the disk, has; a server that syncs once a second takes one.
PATIENCE_MS: Final = 2500
MARK: Final = "confirmed"


class Confirm(Protocol):
    """Asks a store to confirm what it was told."""

    async def __call__(self, redis: Redis, *keys: str) -> None:
        """Return once these keys, as they were before it was called, outlive the server that leads.

        Raises:
            StoreUnavailable: they may come to be kept or not.
        """


def confirming(durability: Durability, url: str) -> Confirm:
    """Say how a store at an address confirms what it has accepted."""
    if durability is Durability.RELAXED:
        return take_its_word
    return _be_replicated if isinstance(read_address(url), Sentinels) else _be_synced


async def take_its_word(redis: Redis, *keys: str) -> None:
    """Ask nobody: the server that leads has answered."""
    del redis, keys


async def _be_replicated(redis: Redis, *keys: str) -> None:
    """Wait for a second server.

    Raises:
        StoreUnavailable: none has it within `PATIENCE_MS`; it may come to be kept or not.
    """
    if await _mark_and(redis, keys, "WAIT", 1, PATIENCE_MS) < 1:
        raise StoreUnavailable("no second server has it yet")


async def _be_synced(redis: Redis, *keys: str) -> None:
    """Wait for the disk.

    Raises:
        StoreUnavailable: it is not there within `PATIENCE_MS`; it may come to be kept or not.
        ConfigurationError: the server cannot tell: Redis before 7.2, Valkey before 7.2.
    """
    try:
        on_disk, _ = await _mark_and(redis, keys, "WAITAOF", 1, 0, PATIENCE_MS)
    except ResponseError as error:
        raise ConfigurationError(
            f"ATELIER_DURABILITY=strict without sentinels needs WAITAOF (Redis 7.2): {error}"
        ) from error
    if on_disk < 1:
        raise StoreUnavailable("it is not on the disk yet")


async def _mark_and(redis: Redis, keys: Sequence[str], *words: Word) -> Reply:
    pipeline = redis.pipeline(transaction=False)  # one connection
    pipeline.execute_command("SET", MARK, 1)
    pipeline.execute_command("EXISTS", *keys, MARK)
    pipeline.execute_command(*words)
    with converting_errors():
        replies = await pipeline.execute(raise_on_error=False)  # else it puts words before theirs
        for each in replies:
            if isinstance(each, Exception):
                raise each
    _, found, reply = replies
    if found <= len(keys):
        raise StoreUnavailable("another server leads, which has not heard of it")
    return reply
