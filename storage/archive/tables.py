"""Tables of the archive. What changes here needs a revision in `migrations/versions/`."""

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, String, Table, Text, text

METADATA = MetaData()

#: Compared byte by byte, as Redis orders the members of an index.
Id = String().with_variant(String(collation="C"), "postgresql")

#: Jobs that ended a while ago. `record` is the whole hash of the store; the other columns are what
#: is asked for, read from it.
JOBS = Table(
    "jobs",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("status", String, nullable=False),
    Column("is_buried", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False, comment="epoch ms, the store's clock"),
    Column("finished_at", BigInteger, nullable=False, comment="epoch ms, the store's clock"),
    Column("bytes", BigInteger, nullable=False, comment="of its images and inputs"),
    Column("record", Text, nullable=False, comment="JSON: field of the hash -> its text"),
    Index("jobs_of_tenant", "tenant", "created_at", "id"),
    Index("jobs_of_tenant_by_status", "tenant", "status", "created_at", "id"),
    Index(
        "buried_jobs_of_tenant",
        "tenant",
        "created_at",
        "id",
        postgresql_where=text("is_buried"),
        sqlite_where=text("is_buried = 1"),  # word for word as it is asked, or SQLite passes it by
    ),
    Index("jobs_by_end", "finished_at"),
    Index(
        "jobs_of_tenant_by_end", "tenant", "finished_at"
    ),  # who keeps its jobs for less than others
)
