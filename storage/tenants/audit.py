"""Who did what, from where: the last of it, in one capped Redis stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from redis.asyncio import Redis

from core.codec import decode, encode
from storage.redis.connect import ask
from storage.redis.keys import AUDIT

MAX_ENTRIES: Final = 10_000  #: the oldest go


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Something that was done."""

    at: float = 0.0  #: epoch s, the store's clock
    event: str  #: such as `key_added`
    by: str  #: id of the key that asked for it
    by_tenant: str  #: whose key that is
    address: str  #: where it was asked from
    request_id: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)  #: what was done to what


class AuditTrail(Protocol):
    """What the api asks of the trail."""

    async def add(self, entry: AuditEntry) -> None:
        """Keep an entry; the store notes when."""

    async def last(self, count: int) -> Sequence[AuditEntry]:
        """Read the last entries, the newest first."""


class AuditStream:
    """Entries in one Redis stream."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, entry: AuditEntry) -> None:
        """Keep an entry; the store notes when."""
        cap = ("MAXLEN", "~", MAX_ENTRIES)
        await ask(self._redis, "XADD", AUDIT, *cap, "*", "entry", encode(entry))

    async def last(self, count: int) -> Sequence[AuditEntry]:
        """Read the last entries, the newest first."""
        rows = await ask(self._redis, "XREVRANGE", AUDIT, "+", "-", "COUNT", count)
        return [_read(*row) for row in rows]


def _read(entry_id: bytes, fields: dict[bytes, bytes]) -> AuditEntry:
    at_ms = int(entry_id.partition(b"-")[0])
    return replace(decode(fields[b"entry"], AuditEntry), at=at_ms / 1e3)
