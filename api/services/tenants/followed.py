"""Follow a table that the store keeps: looked up without a trip, read again when it changes.

A change is seen by the process that makes it at once, by the others within two seconds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic

from core.errors import Conflict, Unavailable
from core.log import get_logger
from storage.tenants.table import R, VersionedTable

#: Seconds between two looks at the version, and for the first look before anybody is answered.
FOLLOW_S: Final = 1.0
FIRST_LOOK_S: Final = 2.0
#: Times that a change is tried while others change rows too.
TRIES: Final = 10

log = get_logger(__name__)


class FollowedTable(Generic[R]):
    """The rows of a table, as last read."""

    def __init__(self, store: VersionedTable[R], *, name: str, by: Callable[[R], str]) -> None:
        """Follow a table; `name` is said in logs, `by` is what rows are looked up by."""
        self._store = store
        self._name = name
        self._by = by
        self._rows: Mapping[str, R] = {}
        self._version: str | None = None  #: None: they were never read

    @property
    def is_known(self) -> bool:
        """Whether the table has been read."""
        return self._version is not None

    @property
    def rows(self) -> Mapping[str, R]:
        """All rows, by what they are looked up by."""
        return self._rows

    async def refresh(self) -> None:
        """Read the rows again if they have changed.

        Raises:
            StoreUnavailable: those read before stay.
        """
        if self._version is None or await self._store.version() != self._version:
            table = await self._store.read()
            self._rows = {self._by(each): each for each in table.rows}
            self._version = table.version

    async def follow(self) -> None:
        """Keep the rows at hand, as long as the process lives."""
        while True:
            await self.try_refresh()
            await asyncio.sleep(FOLLOW_S)

    async def try_refresh(self) -> None:
        """Read the rows again if the store answers in time."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self.refresh()
        except (Unavailable, TimeoutError) as error:
            why = str(error) or type(error).__name__
            log.warning("table_not_read", table=self._name, error=why)

    async def read(self) -> Sequence[R]:
        """Read all rows as they are now."""
        return (await self._store.read()).rows

    async def write(self, do: Callable[[Sequence[R]], Sequence[R]]) -> Sequence[R]:
        """Write what `do` makes of the rows as they are now.

        Raises:
            Conflict: others change rows all the time.
        """
        for _ in range(TRIES):
            table = await self._store.read()
            changed = do(table.rows)
            if await self._store.write(changed, read=table.version):
                self._rows = {self._by(each): each for each in (*table.rows, *changed)}
                await self.try_refresh()  # it is written, whatever becomes of this
                return changed
        raise Conflict("others make changes at the same time: ask again")
