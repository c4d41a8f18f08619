"""A page of a tenant's jobs, newest first: those in Redis and those in the archive, merged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redis.asyncio import Redis

from core.job import Job, JobStatus
from storage.archive.archive import NO_ARCHIVE, Archive
from storage.archive.records import Archived
from storage.jobs.record import read_job
from storage.redis.connect import converting_errors
from storage.redis.index import ids_after, read_cursor, write_cursor
from storage.redis.keys import buried_key, job_key, tenant_key

SCAN = 200  #: index entries looked at in one go when a list asks for one status
MAX_SCANS = 20  #: then the page is returned short, with a cursor

Place = tuple[int, str]  #: when a job was accepted (epoch ms), and its id


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some jobs of one tenant, newest first."""

    jobs: tuple[Job, ...]
    cursor: str | None  #: pass it to get what follows; None: nothing follows


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a list asks for."""

    tenant: str
    status: JobStatus | None = None  #: None: any
    is_buried: bool = False  #: only those that ended for want of attempts, and may be tried again
    limit: int = 20


@dataclass(frozen=True, slots=True)
class Listed:
    """What one of both places has for a page."""

    jobs: Sequence[tuple[Place, Job]]
    end: Place | None  #: how far it was read; None: to its end


async def read_page(redis: Redis, archive: Archive, wanted: Wanted, cursor: str | None) -> Page:
    """Read a page that begins after a cursor; it may be short and still have one.

    Raises:
        ArchiveUnavailable, StoreUnavailable: one of both cannot serve now.
    """
    parts = [await _in_redis(redis, wanted, cursor)]
    if archive is not NO_ARCHIVE:  # after Redis: a job that goes there meanwhile is in one, or both
        archived = await _in_archive(redis, archive, wanted, cursor)
        parts.append(_without(archived, parts[0]))
    end = max((part.end for part in parts if part.end is not None), default=None)
    read = [each for part in parts for each in part.jobs if end is None or each[0] >= end]
    found = sorted(read, key=lambda each: each[0], reverse=True)[: wanted.limit]
    if len(found) == wanted.limit:
        end = found[-1][0]
    return Page(
        jobs=tuple(job for _, job in found), cursor=None if end is None else write_cursor(*end)
    )


async def _in_redis(redis: Redis, wanted: Wanted, cursor: str | None) -> Listed:
    index = buried_key(wanted.tenant) if wanted.is_buried else tenant_key(wanted.tenant)
    span = wanted.limit if wanted.status is None else SCAN
    found: list[tuple[Place, Job]] = []
    end = None
    for _ in range(MAX_SCANS):
        ids = await ids_after(redis, index, cursor, span)
        jobs = await _read_all(redis, [name for name, _ in ids])
        for (name, score), job in zip(ids, jobs, strict=True):
            end = score, name
            if job is not None and wanted.status in (None, job.status):
                found.append((end, job))
            if len(found) == wanted.limit:
                return Listed(found, end)
        if len(ids) < span:
            return Listed(found, None)
        cursor = write_cursor(*end) if end is not None else cursor
    return Listed(found, end)


async def _in_archive(redis: Redis, archive: Archive, wanted: Wanted, cursor: str | None) -> Listed:
    rows = await archive.list(
        wanted.tenant,
        status=wanted.status,
        is_buried=wanted.is_buried,
        after=read_cursor(cursor),
        limit=wanted.limit,
    )
    found = [(row.place, read_job(row.id, row.fields)) for row in await not_here(redis, rows)]
    return Listed(found, rows[-1].place if len(rows) == wanted.limit else None)


def _without(part: Listed, other: Listed) -> Listed:
    """Leave out of one part what the other has."""
    ids = {job.id for _, job in other.jobs}
    return replace(part, jobs=[each for each in part.jobs if each[1].id not in ids])


async def not_here(redis: Redis, rows: Sequence[Archived]) -> list[Archived]:
    """Leave out what Redis has a record of: that one is newer."""
    async with redis.pipeline(transaction=False) as pipe:
        for row in rows:
            pipe.execute_command("EXISTS", job_key(row.id))
        with converting_errors():
            here = await pipe.execute()
    return [row for row, is_here in zip(rows, here, strict=True) if not is_here]


async def _read_all(redis: Redis, ids: Sequence[str]) -> Sequence[Job | None]:
    async with redis.pipeline(transaction=False) as pipe:
        for job_id in ids:
            pipe.execute_command("HGETALL", job_key(job_id))
        with converting_errors():
            records = await pipe.execute()
    return [read_job(i, r) if r else None for i, r in zip(ids, records, strict=True)]
