"""Who is served next: tenants alike, by the work they ask for, whoever sends more."""

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core.errors import TooManyRequests
from core.job import JobStatus
from storage.jobs.leases import Leases, Outcome
from storage.jobs.submit import NewJob, Submitted
from storage.redis.script import call_sync, load
from tests.contract.house import MAX_QUEUE, House, RedisHouse, id_of, new_job
from tests.contract.test_jobs import submit


def jobs_of(tenant: str, count: int, **options: int) -> list[NewJob]:
    return [new_job(f"{tenant}{n:03}", tenant=tenant, **options) for n in range(count)]


def take(house: House, leases: Leases, queue: str = "gen.m") -> str | None:
    """Do what a worker does: pop a message, and claim what it stands for."""
    named = id_of(house.pop(queue))
    claim = None if named is None else leases.claim(named)
    if claim is None:
        return None
    leases.finish(claim.job.id, claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    return claim.job.id


async def drain(house: House, queue: str = "gen.m") -> list[str]:
    """Serve a queue until no message is left on it."""
    leases, taken = house.leases(), []
    while house.messages(queue):
        if (job_id := take(house, leases, queue)) is not None:
            taken.append(job_id)
    return taken


async def test_a_flood_does_not_delay_who_sends_one_job(house: House) -> None:
    await submit(house, *jobs_of("flood", 40))
    leases = house.leases()
    assert [take(house, leases) for _ in range(3)] == ["flood000", "flood001", "flood002"]
    (answer,) = await house.jobs.submit([new_job("alone", tenant="other")])
    assert isinstance(answer, Submitted)
    assert answer.position <= 1
    assert "alone" in {take(house, leases), take(house, leases)}


async def test_tenants_take_turns(house: House) -> None:
    await submit(house, *jobs_of("a", 6))
    await submit(house, *jobs_of("b", 3))
    await submit(house, *jobs_of("c", 3))
    taken = await drain(house)
    assert {job[0] for job in taken[:3]} == {job[0] for job in taken[3:6]} == set("abc")
    assert sorted(taken[-3:]) == ["a003", "a004", "a005"]
    for tenant in "abc":  # one tenant's jobs stay in order
        own = [job for job in taken if job[0] == tenant]
        assert own == sorted(own)


async def test_work_counts_and_not_jobs(house: House) -> None:
    await submit(house, *jobs_of("large", 8, n=4))
    await submit(house, *jobs_of("small", 16))
    taken = await drain(house)
    first = Counter(job[:5] for job in taken[:10])
    assert first["small"] == pytest.approx(4 * first["large"], abs=2)


async def test_a_tenant_of_twice_the_weight_is_served_twice_as_often(house: House) -> None:
    await submit(house, *(replace(job, work=job.work / 2) for job in jobs_of("heavy", 12)))
    await submit(house, *jobs_of("light", 12))
    first = Counter(job[:5] for job in (await drain(house))[:12])
    assert first["heavy"] == pytest.approx(2 * first["light"], abs=2)


async def test_who_was_away_is_owed_nothing(house: House) -> None:
    await submit(house, *jobs_of("busy", 20))
    leases = house.leases()
    for _ in range(10):
        take(house, leases)
    await submit(house, *jobs_of("late", 6))
    taken = [take(house, leases) for _ in range(6)]
    assert Counter(str(job)[:4] for job in taken) == {"busy": 3, "late": 3}


async def test_the_position_told_is_that_of_its_turn(house: House) -> None:
    await submit(house, *jobs_of("flood", 20))
    await submit(house, *jobs_of("other", 2))
    told = [await house.jobs.queue_position(job) for job in jobs_of("other", 2)]  # type: ignore[arg-type]
    assert told[0] is not None and told[0] <= 1
    assert told[1] is not None and told[1] <= 3
    taken = await drain(house)
    assert taken.index("other000") == told[0]
    assert taken.index("other001") == told[1]


async def test_priority_goes_before_turns(house: House) -> None:
    await submit(house, *jobs_of("batch", 2, priority=6))
    await submit(house, *jobs_of("flood", 5))
    assert (await drain(house))[-2:] == ["batch000", "batch001"]


async def test_a_queue_that_one_tenant_filled_takes_others(house: House) -> None:
    await submit(house, *jobs_of("flood", MAX_QUEUE))
    (refused,) = await house.jobs.submit([new_job("more", tenant="flood")])
    assert isinstance(refused, TooManyRequests)
    answers = await house.jobs.submit(jobs_of("other", MAX_QUEUE))
    taken = [answer for answer in answers if isinstance(answer, Submitted)]
    assert len(taken) == MAX_QUEUE // 2


async def test_what_is_canceled_is_not_counted_against_its_tenant(house: House) -> None:
    await submit(house, *jobs_of("other", 10))
    await submit(house, *jobs_of("fickle", 10))
    for job in jobs_of("fickle", 10):
        await house.jobs.cancel(job.id)
    await submit(house, new_job("again", tenant="fickle"))
    assert "again" in (await drain(house))[:2]


async def test_a_job_whose_worker_is_lost_goes_first(house: House) -> None:
    await submit(house, *jobs_of("a", 3))
    await submit(house, *jobs_of("b", 3))
    leases = house.leases(lease_s=0.0)
    claim = leases.claim(str(id_of(house.pop("gen.m"))))
    assert claim is not None
    leases.forfeit({claim.job.id: claim.fence})
    await house.sweeper().reap()
    assert take(house, house.leases()) == claim.job.id


async def test_each_job_that_waits_has_a_message_whoever_is_served_by_that_of_another(
    house: House,
) -> None:
    await submit(house, *jobs_of("flood", 3), new_job("j1", tenant="other"))
    leases = house.leases()
    for left in (3, 2, 1, 0):
        assert take(house, leases) is not None
        assert len(house.messages("gen.m")) == left


async def test_a_queue_that_is_served_to_its_last_job_leaves_nothing_behind(
    real: RedisHouse,
) -> None:
    await submit(real, *jobs_of("one", 2), new_job("j1", tenant="other"))
    assert len(await drain(real)) == 3
    assert real.sync.keys("*gen.m*") == []


async def test_a_claim_whose_answer_was_lost_is_answered_alike(real: RedisHouse) -> None:
    await submit(real, *jobs_of("flood", 3))
    assert take(real, real.leases()) == "flood000"
    await submit(real, new_job("alone", tenant="other"))
    named = id_of(real.pop("gen.m"))
    args = (named, "w1", 60_000, "token", 0, 0)
    first, again = (call_sync(real.sync, load("claim"), *args)[0] for _ in range(2))
    assert first == again


_NUMBERS = count()

ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from("abc"), st.integers(1, 4)),
        st.tuples(st.just("take"), st.just(""), st.just(0)),
        st.tuples(st.just("cancel"), st.sampled_from("abc"), st.integers(0, 9)),
        st.tuples(st.just("die"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(acts=ACTS)
async def test_every_job_is_made_once_whoever_is_served_first(house: House, acts: list) -> None:  # type: ignore[type-arg]
    """Messages name other jobs than are claimed; none is lost for it, and none is made twice."""
    sent: list[str] = []
    ended: Counter[str] = Counter()
    for what, tenant, number in acts:
        if what == "submit":
            job_id = f"{tenant}{next(_NUMBERS)}"
            await submit(house, new_job(job_id, tenant=tenant, n=number))
            sent.append(job_id)
        elif what == "take":
            ended.update(filter(None, [take(house, house.leases())]))
        elif what == "cancel" and number < len(sent):
            job = await house.jobs.cancel(sent[number])
            ended[job.id] |= 1
        elif what == "die" and (named := id_of(house.pop("gen.m"))) is not None:
            claim = house.leases(lease_s=0.0).claim(named)
            if claim is not None:
                house.leases().forfeit({claim.job.id: claim.fence})
                await house.sweeper(max_attempts=99).reap()
    ended.update(await drain(house))
    assert house.problems() == []
    assert ended == Counter(sent)


@pytest.mark.parametrize("again", ["canceled", "expired"])
async def test_who_withdraws_what_waits_is_not_first_again(house: House, again: str) -> None:
    """A tenant that has been served, and has nothing else that waits, submits and takes it back."""
    await submit(house, *jobs_of("other", 8), *jobs_of("fickle", 1))
    leases, taken = house.leases(), []
    for number in range(1, 5):
        taken.append(take(house, leases))
        withdrawn = new_job(f"withdrawn{number}", tenant="fickle", deadline_s=60.0)
        await submit(house, withdrawn)
        if again == "canceled":
            await house.jobs.cancel(withdrawn.id)
        else:
            house.pass_deadline(withdrawn.id)
            assert await house.sweeper().expire() == [withdrawn.id]
        await submit(house, new_job(f"fickle{number:03}", tenant="fickle"))
        taken.append(take(house, leases))
    assert Counter(str(job)[:5] for job in taken) == {"other": 4, "fickl": 4}


LARGEST, STEADY = 4, 16
RESET = [("submit", LARGEST), ("cancel", 0), ("submit", LARGEST), ("take", 0)]
FICKLE_ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, LARGEST)),
        st.tuples(st.just("cancel"), st.integers(0, 5)),
        st.tuples(st.just("take"), st.just(0)),
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(acts=FICKLE_ACTS)
@example(acts=3 * RESET)
async def test_whatever_is_withdrawn_nobody_who_waits_is_overtaken_by_more_than_a_job(
    house: House, acts: list[tuple[str, int]]
) -> None:
    """The bound of turns, against one that submits and cancels as it likes; work in images."""
    steady = [new_job(f"steady{next(_NUMBERS)}", tenant="steady") for _ in range(STEADY)]
    await submit(house, *steady)
    sizes, waiting, served = {job.id: 1 for job in steady}, list[str](), Counter[str]()
    leases = house.leases()
    for what, number in acts:
        if what == "submit":
            job_id = f"fickle{next(_NUMBERS)}"
            await submit(house, new_job(job_id, tenant="fickle", n=number))
            sizes[job_id] = number
            waiting.append(job_id)
        elif what == "cancel" and number < len(waiting):
            await house.jobs.cancel(waiting.pop(number))
        elif what == "take" and served["steady"] < STEADY - 1:
            job_id = str(take(house, leases))
            served[job_id[:6]] += sizes[job_id]
            waiting = [each for each in waiting if each != job_id]
            assert served["fickle"] <= served["steady"] + LARGEST
    await drain(house)
