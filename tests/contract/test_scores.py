import asyncio

from core.boards.score import Score
from core.job import JobStatus
from storage.boards.scores import FIRST
from storage.jobs.leases import Outcome
from storage.redis.script import call_sync, load
from tests.contract.house import MAX_SCORES, ArchivingHouse, House, RedisHouse, new_job


def a_score(name: str = "j1", quality: float = 0.75) -> Score:
    return Score(job=name, prompt="a red circle — ünïcode", level="base@10", quality=quality)


async def ended(house: House, *ids: str) -> None:
    """Have jobs that have ended; those before them may go to the archive meanwhile."""
    await house.jobs.submit([new_job(job_id) for job_id in ids])
    leases = house.leases()
    for job_id in ids:
        claim = leases.claim(job_id, is_exact=True)
        assert claim is not None
        assert leases.finish(job_id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))


async def kept(house: House) -> list[str]:
    return [each.job for each in (await house.scores.after(FIRST, 10)).scores]


async def test_scores_are_read_in_the_order_they_came(house: House) -> None:
    await ended(house, "a", "b", "c")
    assert await house.scores.last() == FIRST
    await house.scores.add([a_score("a"), a_score("b", 0.1)])
    await house.scores.add([a_score("c", 1.0)])
    page = await house.scores.after(FIRST, 10)
    assert page.scores == (a_score("a"), a_score("b", 0.1), a_score("c", 1.0))
    assert page.cursor == await house.scores.last()


async def test_a_reader_goes_on_where_it_stopped(house: House) -> None:
    await ended(house, "a", "b", "c", "d")
    await house.scores.add([a_score("a"), a_score("b"), a_score("c")])
    first = await house.scores.after(FIRST, 2)
    second = await house.scores.after(first.cursor, 2)
    assert [s.job for page in (first, second) for s in page.scores] == ["a", "b", "c"]
    end = await house.scores.after(second.cursor, 2)
    assert (end.scores, end.cursor) == ((), second.cursor)
    await house.scores.add([a_score("d")])
    assert [s.job for s in (await house.scores.after(end.cursor, 2)).scores] == ["d"]


async def test_no_more_are_kept_than_may_be_and_the_oldest_go(house: House) -> None:
    names = [str(i) for i in range(MAX_SCORES)]
    await ended(house, *names, "more")
    await house.scores.add([a_score(name) for name in names])
    await house.scores.add([a_score("more")])
    assert await kept(house) == ["1", "2", "3", "more"]


async def test_old_ones_are_forgotten_and_new_ones_stay(house: House) -> None:
    for wait_s in (0.05, 1.0, 10.0):  # longer where a slow machine has aged the new one too
        old, new = f"old{wait_s}", f"new{wait_s}"
        await ended(house, old, new)
        await house.scores.add([a_score(old)])
        await asyncio.sleep(wait_s)
        await house.scores.add([a_score(new)])
        await house.scores.forget(0.6 * wait_s)
        left = await kept(house)
        if left == [new]:
            break
        await house.scores.forget(0.0)
    assert left == [new]
    await house.scores.forget(0.0)
    await house.scores.add([])


async def test_a_score_goes_with_its_job_whoever_deletes_that(house: House) -> None:
    await ended(house, "a", "b", "c")
    await house.scores.add([a_score("a"), a_score("b"), a_score("c")])
    assert await house.jobs.forget("b")
    assert await kept(house) == ["a", "c"]
    assert await house.sweeper().forget(["c", "nobody"]) == 1
    assert await kept(house) == ["a"]
    await house.scores.forget(0.0)  # what is trimmed is no harm to who deletes the job later
    assert await house.jobs.forget("a")


async def test_no_score_is_kept_of_a_job_that_was_deleted_while_it_was_scored(house: House) -> None:
    await ended(house, "a", "b")
    assert await house.jobs.forget("a")
    await ended(house, "c")
    await house.scores.add([a_score("a"), a_score("nobody"), a_score("c")])
    assert await kept(house) == ["c"]


async def test_a_job_that_has_not_ended_has_no_score_and_others_have_one(house: House) -> None:
    await house.jobs.submit([new_job("open")])
    await ended(house, "a")
    await house.scores.add([a_score("open"), a_score("a")])
    await house.scores.add([a_score("a", 0.5)])
    assert (await house.scores.after(FIRST, 10)).scores == (a_score("a"),)


async def test_a_job_that_is_just_being_deleted_gets_no_score(real: RedisHouse) -> None:
    await ended(real, "a")
    assert call_sync(real.sync, load("unscore"), "a", "nobody") == 0
    await real.scores.add([a_score("a")])
    assert await kept(real) == []
    assert not real.sync.exists("job:nobody")


async def test_a_job_that_is_just_being_archived_gets_no_score(archiving: ArchivingHouse) -> None:
    """The archive would not know of it, so that nobody could delete it with the job."""
    await ended(archiving, "a", "b")
    await archiving.scores.add([a_score("a")])
    archiving.sync.hset("archiving", "b", "token")
    await archiving.scores.add([a_score("b")])
    assert archiving.mover.run() == 2
    await archiving.scores.add([a_score("b")])
    assert await kept(archiving) == ["a"]
    assert await archiving.jobs.forget("a")
    assert await kept(archiving) == []
