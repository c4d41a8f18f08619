"""Connections to the archive's database, and conversion of its errors to `ArchiveUnavailable`."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from core.errors import ArchiveUnavailable, ConfigurationError

CONNECT_TIMEOUT_S = 3
STATEMENT_S = 20  #: of one statement, or of waiting for a lock
UNHEARD_S = 10  #: a server whose machine says nothing for so long is given up
IDLE_S = 60  #: a writer that stands still for so long within a page loses its turn
POOL = 8

_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_POSTGRES: dict[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": UNHEARD_S * 1000,
    "options": f"-c statement_timeout={STATEMENT_S}s -c lock_timeout={STATEMENT_S}s "
    f"-c idle_in_transaction_session_timeout={IDLE_S}s",
    "application_name": "atelier",
}


def open_engine(url: str) -> Engine:
    """Prepare connections to PostgreSQL (`postgresql://`) or a file (`sqlite:///`); none is made.

    Raises:
        ConfigurationError: the address cannot be read, or names another database.
    """
    try:
        read = make_url(url)
        read = read.set(drivername=_DRIVERS.get(read.drivername, read.drivername))
        if read.drivername == "postgresql+psycopg":
            return create_engine(
                read,
                pool_size=POOL,
                max_overflow=0,
                pool_timeout=CONNECT_TIMEOUT_S,
                pool_pre_ping=True,
                connect_args=_POSTGRES,
            )
        if read.drivername == "sqlite":
            return _of_file(create_engine(read, connect_args={"timeout": STATEMENT_S}))
    except (ArgumentError, NoSuchModuleError):
        pass  # what it says may hold the password
    raise ConfigurationError("ATELIER_ARCHIVE_URL: must begin with postgresql:// or sqlite:///")


def _of_file(engine: Engine) -> Engine:
    """Let others read a file while it is written; what is committed outlives the machine."""

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    return engine


@contextmanager
def converting_errors() -> Iterator[None]:
    """Say `ArchiveUnavailable` of whatever keeps the database from answering.

    Raises:
        ArchiveUnavailable: it does not answer now, or refuses.
    """
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise ArchiveUnavailable(f"{type(cause).__name__}: {cause}") from error
