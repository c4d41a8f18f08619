"""Index jobs by status, and those that are buried: a list of few read all that a tenant has."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make both, however long it takes; one that an operator has made before stays."""
    if op.get_context().dialect.name == "postgresql":
        op.execute("SET LOCAL statement_timeout = 0")  # as long as this transaction lasts
    op.create_index(
        "jobs_of_tenant_by_status",
        "jobs",
        ["tenant", "status", "created_at", "id"],
        if_not_exists=True,
    )
    op.create_index(
        "buried_jobs_of_tenant",
        "jobs",
        ["tenant", "created_at", "id"],
        if_not_exists=True,
        postgresql_where=sa.text("is_buried"),
        sqlite_where=sa.text("is_buried = 1"),
    )
