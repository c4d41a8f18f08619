"""Follow the keys that the store keeps: looked up without a trip, read again when they change.

A key that nobody knows costs the store nothing, however often it comes. A change is seen by the
process that makes it at once, by the others within `FOLLOW_S`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from core.errors import Conflict, NotFound, StoreUnavailable, Unavailable
from core.log import get_logger
from storage.tenants.key import TenantKey
from storage.tenants.keys import Keys

#: Seconds between two looks at the version, and for the first look before anybody is answered.
FOLLOW_S: Final = 1.0
FIRST_LOOK_S: Final = 2.0
#: Times that a change is tried while others change keys too.
TRIES: Final = 10

log = get_logger(__name__)


class StoredKeys:
    """The keys of the store, as last read."""

    def __init__(self, store: Keys) -> None:
        self._store = store
        self._by_digest: Mapping[str, TenantKey] = {}
        self._version: str | None = None  #: None: they were never read

    @property
    def tenants(self) -> set[str]:
        """Name everybody who has, or had, a key."""
        return {each.tenant for each in self._by_digest.values()}

    def find(self, digest: str) -> TenantKey | None:
        """Look a key up, whether it works or not.

        Raises:
            StoreUnavailable: the keys were never read, so nobody knows.
        """
        if self._version is None:
            raise StoreUnavailable("the keys have not been read yet")
        return self._by_digest.get(digest)

    async def refresh(self) -> None:
        """Read the keys again if they have changed.

        Raises:
            StoreUnavailable: those read before stay.
        """
        if self._version is None or await self._store.version() != self._version:
            table = await self._store.read()
            self._by_digest = {each.digest: each for each in table.keys}
            self._version = table.version

    async def follow(self) -> None:
        """Keep the keys at hand, as long as the process lives."""
        while True:
            await self.try_refresh()
            await asyncio.sleep(FOLLOW_S)

    async def try_refresh(self) -> None:
        """Read the keys again if the store answers in time."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self.refresh()
        except (Unavailable, TimeoutError) as error:
            log.warning("keys_not_read", error=str(error) or type(error).__name__)

    async def list(self) -> Sequence[TenantKey]:
        """Read all keys, newest first."""
        return (await self._store.read()).keys

    async def add(self, key: TenantKey) -> None:
        """Keep a new key. Raises: Conflict: others change keys all the time."""
        await self._write(lambda _: [key])

    async def change(
        self, key_id: str, do: Callable[[TenantKey], Sequence[TenantKey]]
    ) -> TenantKey:
        """Write what `do` makes of a key; return the key, the first of them.

        Raises:
            NotFound: there is none of this id.
            Conflict: others change keys all the time.
        """
        return (await self._write(lambda keys: do(_of_id(keys, key_id))))[0]

    async def _write(
        self, do: Callable[[Sequence[TenantKey]], Sequence[TenantKey]]
    ) -> Sequence[TenantKey]:
        for _ in range(TRIES):
            table = await self._store.read()
            changed = do(table.keys)
            if await self._store.write(changed, read=table.version):
                await self.try_refresh()  # it is written, whatever becomes of this
                return changed
        raise Conflict("others change keys at the same time: ask again")


def _of_id(keys: Sequence[TenantKey], key_id: str) -> TenantKey:
    found = next((each for each in keys if each.id == key_id), None)
    if found is None:
        raise NotFound(f"there is no key of the id {key_id!r}: `GET /v1/keys` lists them")
    return found
