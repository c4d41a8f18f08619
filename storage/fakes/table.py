"""In-memory fake of `TableStore`."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from storage.fakes.store import MemoryStore
from storage.tenants.table import R, TableRows, VersionedTable


class MemoryTable(VersionedTable[R]):
    """Rows in memory."""

    def __init__(self, store: MemoryStore, key: str, id_of: Callable[[R], str]) -> None:
        self.store = store
        self._key = key
        self._id_of = id_of

    async def version(self) -> str:
        return self.store.versions.get(self._key, "")

    async def read(self) -> TableRows[R]:
        with self.store.lock:
            rows: dict[str, Any] = self.store.tables[self._key]
            return TableRows(version=await self.version(), rows=tuple(rows.values()))

    async def write(self, rows: Sequence[R], *, read: str) -> bool:
        with self.store.lock:
            if await self.version() != read:
                return False
            self.store.tables[self._key] |= {self._id_of(each): each for each in rows}
            self.store.versions[self._key] = uuid4().hex
            return True
