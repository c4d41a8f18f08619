"""Write jobs to the archive: one writer at a time, a page in one transaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, delete, insert, text

from storage.archive.connect import converting_errors
from storage.archive.records import Archived, write_row
from storage.archive.tables import JOBS

LOCK = 4_771_013_529  #: of whoever writes, among PostgreSQL's advisory locks


@dataclass(frozen=True, slots=True)
class Writer:
    """What may be written within one transaction."""

    connection: Connection

    def put(self, jobs: Sequence[Archived]) -> None:
        """Write jobs, in place of what was written of them before."""
        self.delete([job.id for job in jobs])
        if jobs:
            self.connection.execute(insert(JOBS), [write_row(job) for job in jobs])

    def delete(self, ids: Sequence[str]) -> None:
        """Delete jobs; those that are not there are nothing to it."""
        if ids:
            self.connection.execute(delete(JOBS).where(JOBS.c.id.in_(ids)))


@contextmanager
def writing(engine: Engine) -> Iterator[Writer]:
    """Write alone until the block ends; then all of it is kept, or none.

    Raises:
        ArchiveUnavailable: the database cannot serve now.
    """
    with converting_errors(), engine.connect() as connection, connection.begin():
        lock(connection)
        yield Writer(connection)


def lock(connection: Connection) -> None:
    """Wait until nobody else writes; the end of the transaction lets go."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
