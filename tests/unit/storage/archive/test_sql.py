"""A list reads no more of the archive than it shows: there is an index of what it asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from core.job import JobStatus
from storage.archive.connect import open_engine
from storage.archive.migrate import upgrade
from storage.archive.records import Archived
from storage.archive.sql import SqlArchive
from storage.archive.writer import writing


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/archive.db")
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def archive(engine: Engine) -> Iterator[SqlArchive]:
    archive = SqlArchive(engine)
    yield archive
    archive.close()


@pytest.mark.parametrize("after", [None, (1, "j1")])
@pytest.mark.parametrize(
    ("status", "is_buried", "index"),
    [
        (None, False, "jobs_of_tenant"),
        (JobStatus.SUCCEEDED, False, "jobs_of_tenant_by_status"),
        (JobStatus.FAILED, False, "jobs_of_tenant_by_status"),
        (JobStatus.FAILED, True, "buried_jobs_of_tenant"),
        (None, True, "buried_jobs_of_tenant"),
    ],
)
async def test_every_list_is_read_from_an_index_in_its_order(
    engine: Engine,
    archive: SqlArchive,
    status: JobStatus | None,
    is_buried: bool,
    index: str,
    after: tuple[int, str] | None,
) -> None:
    asked: list[tuple[str, tuple[object, ...]]] = []

    @event.listens_for(engine, "before_cursor_execute")
    def note(*told: object) -> None:
        asked.append((told[2], told[3]))  # type: ignore[arg-type]

    await archive.list("t", status=status, is_buried=is_buried, after=after, limit=20)
    words, given = asked[-1]
    with engine.connect() as connection:
        steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {words}", given).all()
    (step,) = [row[-1] for row in steps]  # one: what is read is not sorted
    assert f" USING INDEX {index} (tenant=?" in step


async def test_a_list_of_what_is_buried_has_no_others(engine: Engine, archive: SqlArchive) -> None:
    jobs = [a_job("j1"), a_job("j2", buried=b"1"), a_job("j3", tenant=b"u", buried=b"1")]
    with writing(engine) as writer:
        writer.put([*jobs, a_job("j4", status=b"succeeded")])
    for status in (None, JobStatus.FAILED):
        found = await archive.list("t", status=status, is_buried=True, after=None, limit=9)
        assert [job.id for job in found] == ["j2"]
    failed = await archive.list("t", status=JobStatus.FAILED, is_buried=False, after=None, limit=9)
    assert [job.id for job in failed] == ["j2", "j1"]


def a_job(job_id: str, **fields: bytes) -> Archived:
    usual = {"tenant": b"t", "status": b"failed", "created_at": b"1000", "finished_at": b"2000"}
    every = {name.encode(): value for name, value in (usual | fields).items()}
    return Archived(id=job_id, fields=every)
