"""Revisions make the tables that the code reads, once, and leave what a newer version has made."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, event, inspect

from core.errors import ArchiveUnavailable, ConfigurationError
from storage.archive.connect import open_engine
from storage.archive.migrate import upgrade
from storage.archive.tables import METADATA


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_engine(f"sqlite:///{tmp_path}/archive.db")


def test_revisions_make_the_tables_that_the_code_names(engine: Engine) -> None:
    upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == "0002"
    engine.dispose()


def test_whoever_comes_later_or_at_once_finds_them_made(engine: Engine) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(upgrade, [engine] * 4))
    upgrade(engine)
    assert set(inspect(engine).get_table_names()) == {"jobs", "alembic_version"}
    engine.dispose()


def test_an_index_that_an_operator_has_made_before_stays(engine: Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:  # back to the first revision, but for one of its indexes
        connection.exec_driver_sql("DROP INDEX buried_jobs_of_tenant")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()


def test_what_a_newer_version_has_made_stays(engine: Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'newer'")
    upgrade(engine)
    with engine.connect() as connection:
        assert MigrationContext.configure(connection).get_current_revision() == "newer"
    engine.dispose()


def test_a_folder_that_is_not_there_is_an_archive_that_is_away(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnavailable):
        upgrade(open_engine(f"sqlite:///{tmp_path}/none/archive.db"))


@pytest.mark.parametrize("url", ["mysql://u:pw@h/d", "what is this", "oracle://u:pw@h", "nope://"])
def test_another_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="ATELIER_ARCHIVE_URL") as told:
        open_engine(url)
    assert "pw" not in str(told.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_is_spoken_to_by_one_driver(scheme: str) -> None:
    assert open_engine(f"{scheme}://u:pw@h/d").url.drivername == "postgresql+psycopg"


def test_a_postgresql_whose_machine_is_gone_is_given_up() -> None:
    """Connections are watched by TCP, which no deadline of the server's ends without it."""
    engine, given = open_engine("postgresql://u:pw@h/d"), dict[str, object]()

    def refuse(dialect: object, record: object, words: object, named: dict[str, object]) -> None:
        given.update(named)
        raise ConnectionError

    event.listen(engine, "do_connect", refuse)
    with pytest.raises(ConnectionError):
        engine.connect()
    assert given["tcp_user_timeout"] == 10_000
    keepalives = [given[f"keepalives_{name}"] for name in ("idle", "interval", "count")]
    assert keepalives == [5, 2, 3]
