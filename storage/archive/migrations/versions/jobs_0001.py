"""Make the table of jobs that ended a while ago."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the table and what it is searched by."""
    op.create_table(
        "jobs",
        sa.Column(
            "id",
            sa.String().with_variant(sa.String(collation="C"), "postgresql"),
            primary_key=True,
        ),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("is_buried", sa.Boolean, nullable=False),
        sa.Column(
            "created_at", sa.BigInteger, nullable=False, comment="epoch ms, the store's clock"
        ),
        sa.Column(
            "finished_at", sa.BigInteger, nullable=False, comment="epoch ms, the store's clock"
        ),
        sa.Column("bytes", sa.BigInteger, nullable=False, comment="of its images and inputs"),
        sa.Column("record", sa.Text, nullable=False, comment="JSON: field of the hash -> its text"),
    )
    op.create_index("jobs_of_tenant", "jobs", ["tenant", "created_at", "id"])
    op.create_index("jobs_by_end", "jobs", ["finished_at"])
    op.create_index("jobs_of_tenant_by_end", "jobs", ["tenant", "finished_at"])
