"""Bring the archive's tables to this version, once, whoever comes first."""

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from core.log import get_logger
from storage.archive.connect import converting_errors
from storage.archive.writer import lock

log = get_logger(__name__)


def upgrade(engine: Engine) -> None:
    """Apply the revisions that are missing, all or none; leave what a newer version has made.

    Revisions only add what the version before does without, so that both work side by side.

    Raises:
        ArchiveUnavailable: the database cannot do it now.
    """
    config = Config()
    config.set_main_option("script_location", "storage.archive:migrations")
    known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
    with converting_errors(), engine.connect() as connection, connection.begin():
        lock(connection)
        found = MigrationContext.configure(connection).get_current_revision()
        if found is not None and found not in known:
            log.info("archive_is_newer", revision=found)
            return
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
