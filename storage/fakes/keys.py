"""In-memory fake of `KeyStore`."""

from collections.abc import Sequence
from uuid import uuid4

from storage.fakes.state import MemoryStore
from storage.tenants.key import TenantKey
from storage.tenants.keys import Keys, KeyTable, newest_first


class MemoryKeys(Keys):
    """Keys in memory."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()

    async def version(self) -> str:
        return self.store.keys_version

    async def read(self) -> KeyTable:
        with self.store.lock:
            keys = newest_first(self.store.keys.values())
            return KeyTable(version=self.store.keys_version, keys=keys)

    async def write(self, keys: Sequence[TenantKey], *, read: str) -> bool:
        with self.store.lock:
            if self.store.keys_version != read:
                return False
            self.store.keys |= {each.id: each for each in keys}
            self.store.keys_version = uuid4().hex
            return True
