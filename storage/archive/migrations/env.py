"""What alembic runs: revisions over the connection, and in the transaction, that it was given."""

from alembic import context

from storage.archive.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=False,  # whoever gave the connection has begun the transaction, and ends it
)
context.run_migrations()
