"""The archive in SQL, read in threads of its own."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine, Row, Select, func, inspect, select, tuple_

from core.errors import ArchiveUnavailable
from core.job import JobStatus
from storage.archive.archive import Archive
from storage.archive.connect import POOL, converting_errors
from storage.archive.records import Archived, read_row
from storage.archive.tables import JOBS
from storage.archive.writer import writing

TIMEOUT_S = 10.0  #: of one answer: a database that stands still must hold up nobody else

T = TypeVar("T")

_JOBS = select(JOBS.c.id, JOBS.c.record)


class SqlArchive(Archive):
    """Jobs in SQL, asked in threads of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(POOL, thread_name_prefix="archive")
        self._is_made = False  #: somebody has made the tables; before, nothing is archived

    async def find(self, ids: Sequence[str]) -> Sequence[Archived]:
        return await self._ask(_JOBS.where(JOBS.c.id.in_(ids)))

    async def list(
        self,
        tenant: str,
        *,
        status: JobStatus | None,
        is_buried: bool,
        after: tuple[int, str] | None,
        limit: int,
    ) -> Sequence[Archived]:
        place = JOBS.c.created_at, JOBS.c.id
        asked = _JOBS.where(JOBS.c.tenant == tenant)
        if is_buried:  # and not by status too: those that failed are many, and have another index
            asked = asked.where(JOBS.c.is_buried)
        elif status is not None:
            asked = asked.where(JOBS.c.status == status.value)
        if after is not None:
            asked = asked.where(tuple_(*place) < tuple_(*after))
        return await self._ask(asked.order_by(*(each.desc() for each in place)).limit(limit))

    async def find_old(
        self, before_ms: int, tenant: str, limit: int, skip: int
    ) -> Sequence[Archived]:
        asked = _JOBS.where(JOBS.c.finished_at <= before_ms)
        if tenant:
            asked = asked.where(JOBS.c.tenant == tenant)
        ordered = asked.order_by(JOBS.c.finished_at, JOBS.c.id)
        return await self._ask(ordered.limit(limit).offset(skip))

    async def delete(self, ids: Sequence[str]) -> None:
        if ids:
            await self._in_thread(lambda: self._delete(ids))

    def count_bytes(self) -> dict[str, int]:
        """Count what each tenant keeps here, for those who compare it with accounts."""
        asked = select(JOBS.c.tenant, func.sum(JOBS.c.bytes)).group_by(JOBS.c.tenant)
        with converting_errors(), self._engine.connect() as connection:
            if not self._has_tables(connection):
                return {}
            return {tenant: int(total) for tenant, total in connection.execute(asked)}

    def close(self) -> None:
        self._threads.shutdown(wait=False)
        self._engine.dispose()

    async def _ask(self, asked: "Select[tuple[str, str]]") -> Sequence[Archived]:
        rows = await self._in_thread(lambda: self._read(asked))
        return [read_row(row.id, row.record) for row in rows]

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Wait for a thread, and for it to be done, no longer than `TIMEOUT_S`."""
        done = asyncio.get_running_loop().run_in_executor(self._threads, call)
        try:
            return await asyncio.wait_for(done, TIMEOUT_S)
        except TimeoutError:
            raise ArchiveUnavailable(f"no answer within {TIMEOUT_S:g} s") from None

    def _read(self, asked: "Select[tuple[str, str]]") -> "Sequence[Row[tuple[str, str]]]":
        with converting_errors(), self._engine.connect() as connection:
            if not self._has_tables(connection):
                return ()
            return connection.execute(asked).all()

    def _delete(self, ids: Sequence[str]) -> None:
        with writing(self._engine) as writer:
            if self._has_tables(writer.connection):
                writer.delete(ids)

    def _has_tables(self, connection: Connection) -> bool:
        self._is_made = self._is_made or inspect(connection).has_table(JOBS.name)
        return self._is_made
