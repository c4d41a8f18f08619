"""Jobs that ended a while ago leave Redis for the archive, and nobody who asks can tell."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from sqlalchemy import func, select

from core.errors import ArchiveUnavailable, Conflict, NotFound, NotRetriable
from core.job import Failure, JobStatus, StoredImage
from core.settings import Durability
from storage.archive.archive import Archive
from storage.archive.connect import open_engine
from storage.archive.mover import PAGE, Mover
from storage.archive.recall import recall_to_delete
from storage.archive.records import Archived
from storage.archive.sql import SqlArchive
from storage.archive.tables import JOBS
from storage.archive.writer import writing
from storage.fakes import MemoryObjects
from storage.jobs.events import EventHub
from storage.jobs.jobs import JobStore
from storage.jobs.leases import Outcome
from storage.jobs.sweeps import BATCH, Sweeper, oldest_ended_s
from storage.redis.strict import confirming
from tasks.upkeep.retention import Retention
from tests.contract.house import MAX_QUEUE, AfterMoving, ArchivingHouse, message_of, new_job

IMAGE = StoredImage(key="t/j1/1/0.png", width=64, height=64, seed=7, sha256="0" * 64, size_bytes=99)
DONE = Outcome(status=JobStatus.SUCCEEDED, images=(IMAGE,))


async def make(house: ArchivingHouse, *ids: str, key: str | None = None) -> None:
    """Have jobs made."""
    await store_of(house).submit([new_job(job_id, key=key) for job_id in ids])
    leases = house.leases()
    for job_id in ids:
        claim = leases.claim(job_id, is_exact=True)
        assert claim is not None
        image = replace(IMAGE, key=f"t/{job_id}/{claim.fence}/0.png")
        assert leases.finish(job_id, claim.fence, replace(DONE, images=(image,)))


async def bury(house: ArchivingHouse, job_id: str) -> None:
    """Have the only worker of a job lost."""
    await store_of(house).submit([new_job(job_id)])
    assert house.leases(lease_s=0.001).claim(job_id, is_exact=True)
    await asyncio.sleep(0.005)
    assert (await Sweeper(house.client, max_attempts=1).reap()).ended == (job_id,)


def store_of(house: ArchivingHouse) -> JobStore:
    """The store as it is, whatever was moved."""
    return JobStore(house.client, max_queue=MAX_QUEUE, archive=house.archive)


class Overtaken:
    """An archive of which somebody else deletes what a reader has just found there."""

    def __init__(self, house: ArchivingHouse, look: int) -> None:
        """Have it deleted after so many looks."""
        self._house, self._looks = house, look

    def __getattr__(self, name: str) -> object:
        return getattr(self._house.archive, name)

    async def find(self, ids: Sequence[str]) -> Sequence[Archived]:
        found = await self._house.archive.find(ids)
        self._looks -= 1
        if self._looks == 0:
            assert await sweeper_of(self._house).forget(ids) == len(found) == len(ids)
        return found


def overtaken(house: ArchivingHouse, look: int) -> JobStore:
    archive = cast(Archive, Overtaken(house, look))
    return JobStore(house.client, max_queue=MAX_QUEUE, archive=archive)


def sweeper_of(house: ArchivingHouse) -> Sweeper:
    return Sweeper(house.client, max_attempts=1, archive=house.archive)


def in_redis(house: ArchivingHouse, job_id: str = "j1") -> bool:
    return bool(house.sync.exists(f"job:{job_id}"))


def rows(house: ArchivingHouse) -> int:
    with house.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(JOBS)).scalar_one()


async def listed(house: ArchivingHouse, **wanted: object) -> list[str]:
    store, found, cursor = store_of(house), list[str](), None
    while True:
        page = await store.list("t", cursor=cursor, limit=3, **wanted)  # type: ignore[arg-type]
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return found


async def test_a_job_reads_the_same_and_leaves_nothing_in_redis(archiving: ArchivingHouse) -> None:
    await make(archiving, "j1")
    job = await store_of(archiving).get("j1", "t")
    objects = await store_of(archiving).find_objects("j1", "t")
    assert archiving.mover.run() == 1
    assert not list(archiving.sync.scan_iter(match="*j1*", count=1000))
    assert not archiving.sync.exists("finished", "tenant:t", "archiving")
    assert await store_of(archiving).get("j1", "t") == job
    assert await store_of(archiving).cancel("j1", "t") == job
    assert await store_of(archiving).find_objects("j1", "t") == objects
    for wrong in (store_of(archiving).get("j1", "u"), store_of(archiving).find_objects("j1", "u")):
        with pytest.raises(NotFound):
            await wrong
    assert (await archiving.stats())["archived"] == 1


async def test_what_has_not_ended_or_only_just_stays(archiving: ArchivingHouse) -> None:
    await make(archiving, "j1")
    await store_of(archiving).submit([new_job("open")])
    assert Mover(archiving.sync, archiving.engine, after_s=60.0).run() == 0
    assert in_redis(archiving)
    assert archiving.mover.run() == 1
    assert in_redis(archiving, "open")


async def test_its_followers_read_what_happened(archiving: ArchivingHouse) -> None:
    await make(archiving, "j1")
    hub = EventHub(archiving.client, archiving.archive)
    told = [event async for event in hub.follow("j1")]
    archiving.mover.run()
    assert [event async for event in hub.follow("j1")] == told != []
    await hub.wait("j1", 60.0)
    with pytest.raises(NotFound):
        await hub.wait("nobody", 60.0)
    await hub.close()


async def test_pages_go_over_both_places_without_gaps(archiving: ArchivingHouse) -> None:
    ids = [f"j{i:02}" for i in range(12)]
    store = store_of(archiving)
    for job_id in ids:
        await store.submit([new_job(job_id)])
    for moved in (ids[::3], ids[1::4]):
        for job_id in moved:
            await store.cancel(job_id)
        archiving.mover.run()
    await store.cancel(ids[2])
    newest_first = sorted(ids, reverse=True)
    created = {job_id: (await store.get(job_id)).created_at for job_id in ids}
    assert await listed(archiving) == sorted(
        newest_first, key=lambda each: created[each], reverse=True
    )
    canceled = {*ids[::3], *ids[1::4], ids[2]}
    assert set(await listed(archiving, status=JobStatus.CANCELED)) == canceled
    assert set(await listed(archiving, status=JobStatus.QUEUED)) == {*ids} - canceled
    assert len(await listed(archiving)) == 12 and not (await store.list("u")).jobs


@pytest.mark.parametrize("limit", [1, 2, 20])
async def test_one_that_goes_while_a_list_is_read_is_in_it_once(
    archiving: ArchivingHouse, limit: int
) -> None:
    await make(archiving, "j1", "j2", "j3")
    meanwhile = cast(Archive, AfterMoving(archiving.archive, archiving.mover))
    store = JobStore(archiving.client, max_queue=MAX_QUEUE, archive=meanwhile)
    page = await store.list("t", limit=limit)
    assert not in_redis(archiving) and rows(archiving) == 3
    assert [job.id for job in page.jobs] == ["j3", "j2", "j1"][:limit]
    rest = (await store.list("t", cursor=page.cursor)).jobs if page.cursor else ()
    assert [job.id for job in rest] == ["j3", "j2", "j1"][limit:]


async def test_a_key_still_leads_to_the_job_that_it_made(archiving: ArchivingHouse) -> None:
    await make(archiving, "j1", key="k")
    archiving.mover.run()
    strict = confirming(Durability.STRICT, "redis://127.0.0.1/0")
    careful = JobStore(archiving.client, max_queue=1, archive=archiving.archive, confirm=strict)
    for store in (store_of(archiving), careful):
        earlier = await store.earlier("t", "k", "d")
        assert earlier is not None and earlier.id == "j1"
    with pytest.raises(Conflict):
        await store_of(archiving).earlier("t", "k", "other")
    assert await store_of(archiving).forget("j1")
    assert await store_of(archiving).earlier("t", "k", "d") is None


async def test_one_that_was_deleted_is_nowhere_and_counted_once(archiving: ArchivingHouse) -> None:
    await make(archiving, "j1", "j2")
    archiving.mover.run()
    assert archiving.sync.hget("account:t", "bytes") == b"198"
    assert await store_of(archiving).forget("j1")
    assert not await store_of(archiving).forget("j1")
    assert archiving.sync.hget("account:t", "bytes") == b"99"
    assert not in_redis(archiving) and rows(archiving) == 1
    assert await listed(archiving) == ["j2"]


async def test_one_that_two_delete_at_once_is_counted_once(archiving: ArchivingHouse) -> None:
    await make(archiving, "j1", "j2")
    archiving.mover.run()
    assert not await overtaken(archiving, 1).forget("j1")
    assert archiving.sync.hget("account:t", "bytes") == b"99"
    assert not in_redis(archiving) and rows(archiving) == 1
    assert await listed(archiving) == ["j2"]
    assert 0 < archiving.sync.ttl("gone:j1") <= 60


async def test_one_that_is_deleted_while_it_is_dug_up_stays_deleted(
    archiving: ArchivingHouse,
) -> None:
    await bury(archiving, "j1")
    archiving.mover.run()
    messages = archiving.messages("gen.m")
    with pytest.raises(NotFound):  # it looks once whether it is buried, then to bring it back
        await overtaken(archiving, 2).retry("j1", "t", message_of("j1"))
    assert not in_redis(archiving) and rows(archiving) == 0
    assert archiving.messages("gen.m") == messages and await listed(archiving) == []


async def test_whoever_dies_between_writing_and_dropping_leaves_it_in_both(
    archiving: ArchivingHouse,
) -> None:
    await make(archiving, "j1")
    job = await store_of(archiving).get("j1")
    assert Mover(archiving.sync, archiving.engine, after_s=60.0).run() == 0
    assert len(archiving.mover.write("died")[1]) == 1
    assert in_redis(archiving) and rows(archiving) == 1
    assert await listed(archiving) == ["j1"] and await store_of(archiving).get("j1") == job
    assert archiving.mover.run() == 1
    assert not in_redis(archiving) and rows(archiving) == 1
    assert await listed(archiving) == ["j1"] and await store_of(archiving).get("j1") == job


@pytest.mark.parametrize("has_died", [False, True])
async def test_one_that_is_deleted_while_it_is_written_does_not_stay(
    archiving: ArchivingHouse, has_died: bool
) -> None:
    archiving.mover.run()
    await make(archiving, "j1")
    _, written = archiving.mover.write("first")
    assert await store_of(archiving).forget("j1")
    with writing(archiving.engine) as writer:  # as if it had been written only now
        writer.put(written)
    again = Mover(archiving.sync, archiving.engine, after_s=0.0)
    assert again.run() == 0 if has_died else archiving.mover.drop("first", written) == 0
    assert rows(archiving) == 0 and not archiving.sync.exists("archiving")
    with pytest.raises(NotFound):
        await store_of(archiving).get("j1")


async def test_one_that_is_tried_again_while_it_goes_stays(archiving: ArchivingHouse) -> None:
    archiving.mover.run()
    await bury(archiving, "j1")
    _, written = archiving.mover.write("first")
    await store_of(archiving).retry("j1", "t", message_of("j1"))
    assert archiving.mover.drop("first", written) == 0
    assert in_redis(archiving) and rows(archiving) == 1
    assert (await store_of(archiving).get("j1")).status is JobStatus.QUEUED
    assert await listed(archiving, status=JobStatus.FAILED) == []
    assert await listed(archiving, is_buried=True) == []
    assert await listed(archiving) == ["j1"]
    await Retention(sweeper_of(archiving), MemoryObjects()).retain(0.0)
    assert in_redis(archiving)
    claim = archiving.leases().claim("j1", is_exact=True)
    assert claim is not None and archiving.leases().finish("j1", claim.fence, DONE)
    assert archiving.mover.run() == 1
    assert rows(archiving) == 1
    assert (await store_of(archiving).get("j1")).status is JobStatus.SUCCEEDED


async def test_a_buried_job_comes_back_to_be_tried_again(archiving: ArchivingHouse) -> None:
    await bury(archiving, "j1")
    await make(archiving, "j2")
    archiving.mover.run()
    assert await listed(archiving, is_buried=True) == ["j1"]
    with pytest.raises(NotFound):
        await store_of(archiving).retry("j1", "u", message_of("j1"))
    with pytest.raises(NotRetriable):
        await store_of(archiving).retry("j2", "t", message_of("j2"))
    assert not in_redis(archiving) and not in_redis(archiving, "j2")
    job = await store_of(archiving).retry("j1", "t", message_of("j1"))
    assert (job.status, job.attempts, job.is_buried) == (JobStatus.QUEUED, 0, False)
    claim = archiving.leases().claim("j1", is_exact=True)
    assert claim is not None and archiving.leases().finish("j1", claim.fence, DONE)
    archiving.mover.run()
    assert (await store_of(archiving).get("j1", "t")).status is JobStatus.SUCCEEDED
    assert await listed(archiving, is_buried=True) == []


async def test_a_mover_that_was_overtaken_drops_and_brings_back_nothing(
    archiving: ArchivingHouse,
) -> None:
    archiving.mover.run()
    await make(archiving, "j1", "j2")
    _, stale = archiving.mover.write("overtaken")
    _, written = archiving.mover.write("last")
    assert archiving.mover.drop("overtaken", stale) == 0 and in_redis(archiving)
    assert archiving.mover.drop("last", written) == 2
    await store_of(archiving).forget("j1")
    assert archiving.mover.drop("overtaken", stale) == 0
    assert rows(archiving) == 1 and await listed(archiving) == ["j2"]


async def test_whoever_dies_while_it_deletes_has_it_found_again(archiving: ArchivingHouse) -> None:
    await make(archiving, "j1")
    archiving.mover.run()
    await recall_to_delete(archiving.client, archiving.archive, ["j1"])
    assert in_redis(archiving) and rows(archiving) == 0
    assert archiving.mover.run() == 0 and in_redis(archiving)
    assert await listed(archiving) == ["j1"]
    assert await store_of(archiving).forget("j1")
    assert archiving.problems() == []


async def test_retention_deletes_what_is_old_with_its_objects(archiving: ArchivingHouse) -> None:
    objects = MemoryObjects()
    await make(archiving, "j1", "j2")
    for key in [k for j in ("j1", "j2") for k in await store_of(archiving).find_objects(j)]:
        objects.put(key, b"p", "image/png")
    archiving.mover.run()
    retention = Retention(sweeper_of(archiving), objects)
    await retention.retain(60.0)
    await retention.retain_own({"t": 60.0, "u": 0.0})
    assert rows(archiving) == 2 and list(objects.list("t"))
    await asyncio.sleep(0.005)
    await retention.retain_own({"t": 0.0})
    assert rows(archiving) == 0 and not list(objects.list("t"))
    await make(archiving, "j3")
    archiving.mover.run()
    await asyncio.sleep(0.005)
    await retention.retain(0.0)
    assert rows(archiving) == 0 and await listed(archiving) == []


@pytest.mark.parametrize("own", [False, True])
async def test_a_page_of_jobs_that_are_tried_again_hides_none_behind_it(
    archiving: ArchivingHouse, own: bool
) -> None:
    store = JobStore(archiving.client, max_queue=BATCH, archive=archiving.archive)
    ids = [f"again{number:03}" for number in range(BATCH)]
    await store.submit([new_job(job_id) for job_id in ids])
    for job_id in ids:
        assert await sweeper_of(archiving).give_up(job_id, Failure(type="t", title="", detail=""))
    await asyncio.sleep(0.002)
    await make(archiving, "last")
    assert archiving.mover.run() == BATCH + 1
    for job_id in ids:
        await store.retry(job_id, "t", message_of(job_id))
    await asyncio.sleep(0.005)
    retention = Retention(sweeper_of(archiving), MemoryObjects())
    await (retention.retain_own({"t": 0.0}) if own else retention.retain(0.0))
    assert rows(archiving) == BATCH and not await archiving.archive.find(["last"])


async def test_more_than_a_page_goes_in_one_run(archiving: ArchivingHouse) -> None:
    store = JobStore(archiving.client, max_queue=10 * PAGE, archive=archiving.archive)
    ids = [f"j{i:03}" for i in range(2 * PAGE + 1)]
    await store.submit([new_job(job_id) for job_id in ids])
    for job_id in ids:
        await store.cancel(job_id)
    assert archiving.mover.run() == len(ids) == rows(archiving)
    assert not archiving.sync.exists("finished")


async def test_while_the_archive_is_away_jobs_stay_and_nobody_is_told_wrong(
    archiving: ArchivingHouse,
) -> None:
    await make(archiving, "j1", key="k")
    archiving.mover.run()
    await make(archiving, "j2")
    away = open_engine("postgresql://atelier:secret@127.0.0.1:1/nowhere")
    store = JobStore(archiving.client, max_queue=MAX_QUEUE, archive=SqlArchive(away))
    with pytest.raises(ArchiveUnavailable) as told:
        Mover(archiving.sync, away, after_s=0.0).run()
    assert "secret" not in str(told.value)
    assert (await store.get("j2")).status is JobStatus.SUCCEEDED
    await store.submit([new_job("j3")])
    asked = (
        store.get("j1"),
        store.list("t"),
        store.earlier("t", "k", "d"),
        store.forget("j2"),
        store.retry("j1", "t", message_of("j1")),
        Sweeper(archiving.client, max_attempts=1, archive=SqlArchive(away)).find_old(60.0),
    )
    for each in asked:
        with pytest.raises(ArchiveUnavailable):
            await each
    assert in_redis(archiving, "j2") and set(await listed(archiving)) == {"j1", "j2", "j3"}


async def test_how_long_the_first_should_have_gone_is_told(archiving: ArchivingHouse) -> None:
    assert await oldest_ended_s(archiving.client) == 0.0
    await make(archiving, "j1", "j2")
    archiving.sync.zincrby("finished", -90_000, "j1")
    assert 90.0 <= await oldest_ended_s(archiving.client) < 100.0
    archiving.sync.zincrby("finished", 90_000, "j1")
