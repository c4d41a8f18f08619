"""Who is charged when a worker is lost that held several jobs, and who is not."""

import asyncio

import pytest

from core.job import Claim, Job, JobStatus, Progress
from storage.jobs.leases import Leases, Outcome
from tests.contract.house import House, RedisHouse, id_of, new_job
from tests.contract.test_leases import DONE

LAPSE_S = 0.02


def short(house: House, worker: str = "w1") -> Leases:
    """Open the leases of a worker that is lost as soon as it has claimed."""
    return house.leases(worker, lease_s=LAPSE_S / 4)


async def claimed(house: House, leases: Leases, *ids: str) -> list[Claim]:
    claims = [leases.claim(job_id) for job_id in ids]
    assert all(claims)
    return [claim for claim in claims if claim is not None]


def let_go(house: House, claim: Claim, worker: str = "w1") -> None:
    """Let one lease of a worker run out now."""
    assert short(house, worker).beat({claim.job.id: claim.fence}) == []


async def lose(house: House, max_attempts: int = 3) -> None:
    """Let every short lease run out, and take the jobs back."""
    await asyncio.sleep(LAPSE_S)
    await house.sweeper(max_attempts).reap()


async def read(house: House, *ids: str) -> list[Job]:
    return [await house.jobs.get(job_id) for job_id in ids]


async def test_jobs_that_share_a_lost_worker_are_suspects_and_none_is_charged(house: House) -> None:
    await house.jobs.submit([new_job("a"), new_job("b"), new_job("other")])
    await claimed(house, house.leases("w2"), "other")
    await claimed(house, short(house), "a", "b")
    await lose(house, max_attempts=1)
    a, b, other = await read(house, "a", "b", "other")
    for job in (a, b):
        assert (job.status, job.attempts, job.is_suspect) == (JobStatus.QUEUED, 0, True)
    assert (other.status, other.attempts, other.is_suspect) == (JobStatus.RUNNING, 1, False)
    [again] = await claimed(house, house.leases("w2"), "a")
    assert again.job.is_suspect and again.job.attempts == 1


async def test_leases_of_one_worker_that_run_out_one_by_one_are_judged_together(
    house: House,
) -> None:
    await house.jobs.submit([new_job("a"), new_job("b"), new_job("c")])
    for claim in await claimed(house, house.leases("w1"), "a", "b", "c"):
        let_go(house, claim)
        await asyncio.sleep(LAPSE_S)
        assert (await house.sweeper(max_attempts=1).reap()).back == (claim.job.id,)
    assert [(job.attempts, job.is_suspect) for job in await read(house, "a", "b", "c")] == [
        (0, True)
    ] * 3


async def test_a_worker_lost_with_one_job_alone_is_charged_to_it(house: House) -> None:
    await house.jobs.submit([new_job("a"), new_job("b")])
    leases = short(house)
    [b, _] = await claimed(house, leases, "b", "a")
    assert leases.finish("b", b.fence, DONE), "what has ended is out of it"
    await lose(house)
    [job] = await read(house, "a")
    assert (job.attempts, job.is_suspect) == (1, True)


async def test_a_job_that_was_made_alone_is_to_blame_and_those_that_wait_are_not(
    house: House,
) -> None:
    await house.jobs.submit([new_job("a"), new_job("s"), new_job("z")])
    leases = short(house)
    [_, s, _] = await claimed(house, leases, "a", "s", "z")
    assert leases.isolate("s", s.fence)
    await lose(house, max_attempts=1)
    a, suspect, z = await read(house, "a", "s", "z")
    for job in (a, z):
        assert (job.status, job.attempts, job.is_suspect) == (JobStatus.QUEUED, 0, False)
    assert suspect.failure is not None and suspect.failure.type == "attempts_exhausted"


async def test_those_that_wait_are_spared_before_and_after_the_culprit_is_taken(
    house: House,
) -> None:
    await house.jobs.submit([new_job("before"), new_job("s"), new_job("after"), new_job("last")])
    leases = house.leases("w1")
    claims = await claimed(house, leases, "before", "s", "after", "last")
    assert leases.isolate("s", claims[1].fence)
    for gone in (claims[:1], claims[1:2], claims[2:]):
        for claim in gone:
            let_go(house, claim)
        await asyncio.sleep(LAPSE_S)
        assert set((await house.sweeper().reap()).back) == {claim.job.id for claim in gone}
    before, suspect, after, last = await read(house, "before", "s", "after", "last")
    for job in (before, after, last):
        assert (job.attempts, job.is_suspect) == (0, False)
    assert (suspect.attempts, suspect.is_suspect) == (1, True)


async def test_a_suspect_that_is_spared_is_a_suspect_still(house: House) -> None:
    await house.jobs.submit([new_job("s"), new_job("t")])
    await claimed(house, short(house), "s", "t")
    await lose(house)
    leases = short(house, "w2")
    [s, _] = await claimed(house, leases, "s", "t")
    assert leases.isolate("s", s.fence)
    await lose(house)
    assert [(j.attempts, j.is_suspect) for j in await read(house, "s", "t")] == [
        (1, True),
        (0, True),
    ]


async def test_what_was_made_alone_under_an_older_claim_does_not_count(house: House) -> None:
    await house.jobs.submit([new_job("s"), new_job("t")])
    leases = short(house)
    [s] = await claimed(house, leases, "s")
    assert leases.isolate("s", s.fence)
    await lose(house)
    await asyncio.sleep(0.002)
    await claimed(house, short(house, "w2"), "s", "t")
    await lose(house)
    assert [(j.attempts, j.is_suspect) for j in await read(house, "s", "t")] == [
        (1, True),
        (0, True),
    ]


async def test_a_verdict_on_an_older_claim_does_not_excuse_a_later_one(house: House) -> None:
    await house.jobs.submit([new_job("a"), new_job("b")])
    await claimed(house, short(house), "a", "b")
    await lose(house)
    await claimed(house, short(house, "w2"), "b")
    await lose(house)
    [job] = await read(house, "b")
    assert job.attempts == 1


async def test_only_the_holder_of_a_claim_isolates_its_job(house: House) -> None:
    await house.jobs.submit([new_job("a"), new_job("b")])
    leases = house.leases("w1")
    [a] = await claimed(house, leases, "a")
    assert not leases.isolate("a", a.fence + 1)
    assert not house.leases("w2").isolate("a", a.fence)
    assert not leases.isolate("b", 0)
    assert not leases.isolate("unknown", 1)
    assert leases.isolate("a", a.fence)
    assert leases.release({"a": a.fence}) == 1
    assert not leases.isolate("a", a.fence)


async def test_a_suspect_that_ends_is_a_suspect_no_more(house: House) -> None:
    await house.jobs.submit([new_job("a"), new_job("b")])
    await claimed(house, short(house), "a", "b")
    await lose(house)
    leases = house.leases("w2")
    [a] = await claimed(house, leases, "a")
    assert leases.isolate("a", a.fence) and leases.finish("a", a.fence, DONE)
    await house.jobs.cancel("b")
    for job in await read(house, "a", "b"):
        assert job.status.is_terminal and not job.is_suspect


async def test_a_suspect_that_is_handed_back_is_a_suspect_still(house: House) -> None:
    await house.jobs.submit([new_job("a"), new_job("b")])
    await claimed(house, short(house), "a", "b")
    await lose(house)
    leases = house.leases("w2")
    [a] = await claimed(house, leases, "a")
    leases.isolate("a", a.fence)
    leases.release({"a": a.fence})
    [job] = await read(house, "a")
    assert (job.attempts, job.is_suspect) == (0, True)


async def test_a_partner_past_its_deadline_shares_the_blame_all_the_same(house: House) -> None:
    await house.jobs.submit([new_job("late", deadline_s=600.0), new_job("a")])
    await claimed(house, short(house), "late", "a")
    house.pass_deadline("late")
    await lose(house, max_attempts=1)
    late, a = await read(house, "late", "a")
    assert late.status is JobStatus.EXPIRED
    assert (a.status, a.attempts, a.is_suspect) == (JobStatus.QUEUED, 0, True)


@pytest.mark.parametrize("kills", [12])
async def test_a_healthy_job_outlives_every_death_that_it_shares(house: House, kills: int) -> None:
    """An operator kills the worker again and again, with ever other jobs beside it."""
    await house.jobs.submit([new_job("healthy")])
    for number in range(kills):
        await house.jobs.submit([new_job(f"j{number}")])
        await claimed(house, short(house), "healthy", f"j{number}")
        await lose(house)
    [job] = await read(house, "healthy")
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    leases = house.leases("w2")
    [claim] = await claimed(house, leases, "healthy")
    leases.progress({"healthy": Progress(step=1, steps=4)})
    assert leases.finish("healthy", claim.fence, Outcome(status=JobStatus.SUCCEEDED))


async def test_a_worker_holds_what_it_has_claimed_and_nothing_else(real: RedisHouse) -> None:
    await real.jobs.submit([new_job("a"), new_job("b"), new_job("c"), new_job("d")])
    leases = real.leases("w1")
    a, b, *_ = await claimed(real, leases, "a", "b", "c", "d")
    assert real.sync.smembers("held:w1") == {b"a", b"b", b"c", b"d"}
    leases.finish("a", a.fence, DONE)
    leases.release({"b": b.fence})
    await real.jobs.cancel("c")
    assert real.sync.smembers("held:w1") == {b"d"}
    assert id_of(real.pop("gen.m")) is not None


async def test_an_attempt_that_came_further_than_those_before_is_not_charged(house: House) -> None:
    await house.jobs.submit([new_job("a")])
    for attempt, furthest in enumerate([10, 20, 30]):
        [claim] = await claimed(house, short(house), "a")
        assert (claim.job.attempts, len(claim.earlier)) == (min(attempt, 1) + 1, attempt)
        assert short(house).credit("a", claim.fence, furthest)
        assert (await house.jobs.get("a")).attempts == 1
        await lose(house)
    assert (await read(house, "a"))[0].status is JobStatus.QUEUED


async def test_a_job_that_stands_still_is_charged_and_buried(house: House) -> None:
    await house.jobs.submit([new_job("a")])
    for attempt in (1, 2, 3):
        [claim] = await claimed(house, short(house), "a")
        assert short(house).credit("a", claim.fence, 10) == (attempt == 1)
        assert not short(house).credit("a", claim.fence, 10)  # said again after a lost answer
        assert (await house.jobs.get("a")).attempts == attempt
        await lose(house)
    [job] = await read(house, "a")
    assert job.is_buried


async def test_who_does_not_own_a_job_takes_no_attempt_back(house: House) -> None:
    await house.jobs.submit([new_job("a")])
    await claimed(house, short(house), "a")
    await lose(house)
    [claim] = await claimed(house, house.leases("w1"), "a")
    assert not house.leases("w2").credit("a", claim.fence, 10)
    assert not house.leases("w1").credit("a", claim.fence - 1, 10)
    assert not house.leases("w1").credit("unknown", claim.fence, 10)
    assert (await house.jobs.get("a")).attempts == 2


async def test_a_claim_names_the_fences_of_those_before_it(house: House) -> None:
    await house.jobs.submit([new_job("a")])
    fences: list[int] = []
    for _ in range(3):
        [claim] = await claimed(house, house.leases("w1"), "a")
        assert claim.earlier == tuple(fences)
        fences.append(claim.fence)
        house.leases("w1").release({"a": claim.fence})
