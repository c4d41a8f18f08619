"""Bring jobs back from the archive to Redis, where alone they are changed, deleted and counted."""

from collections.abc import Sequence

from redis.asyncio import Redis

from storage.archive.archive import NO_ARCHIVE, Archive
from storage.archive.records import Archived, flat
from storage.redis.connect import Word
from storage.redis.script import call, load


async def recall(redis: Redis, archive: Archive, ids: Sequence[str], wish: str = "") -> None:
    """Have jobs in Redis, as far as they are anywhere.

    What the archive has of them stays: it says nothing while they are here, and is written anew
    when they go there again. So does what Redis loses in a crash. One that somebody else deletes
    after it was read there is nowhere, and stays so.

    Raises:
        ArchiveUnavailable, StoreUnavailable: one of both cannot serve; nothing is lost.
    """
    words: list[Word] = [word for job_id in ids for word in (job_id, 0)]
    nowhere = [name.decode() for name in await call(redis, load("recall"), wish, *words)]
    if nowhere:
        found = await archive.find(nowhere)
        if found:
            await call(redis, load("recall"), wish, *(w for job in found for w in _words(job)))


async def recall_to_delete(redis: Redis, archive: Archive, ids: Sequence[str]) -> None:
    """Have jobs in Redis and nowhere else, before `forget`; they do not go back.

    Whoever dies before that has them found there again, and their bytes are counted once.

    Raises:
        ArchiveUnavailable, StoreUnavailable: one of both cannot serve; nothing is lost.
    """
    if ids and archive is not NO_ARCHIVE:
        await recall(redis, archive, ids, "delete")
        await archive.delete(ids)


def _words(job: Archived) -> Sequence[Word]:
    record = flat(job.fields)
    return (job.id, len(record), *record)
