from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

import pytest
from redis.asyncio import Redis

from core.errors import Conflict, NotFound, TooManyRequests
from core.job import JobStatus
from storage.jobs.jobs import JobStore
from storage.jobs.leases import Outcome
from storage.jobs.submit import NewJob, Submitted
from storage.redis.index import write_cursor
from tests.contract.house import MAX_QUEUE, House, RedisHouse, id_of, new_job, sent, statuses


async def submit(house: House, *jobs: NewJob) -> None:
    for job, answer in zip(jobs, await house.jobs.submit(jobs), strict=True):
        assert answer == Submitted(id=job.id, is_new=True)


async def test_an_accepted_job_is_stored_and_its_message_queued(house: House) -> None:
    new = new_job(deadline_s=30.0)
    await submit(house, new)
    job = await house.jobs.get("j1", "t")
    assert (job.id, job.tenant, job.request, job.placement) == (
        "j1",
        "t",
        new.request,
        new.placement,
    )
    assert (job.status, job.attempts, job.fence, job.worker) == (JobStatus.QUEUED, 0, 0, None)
    assert job.deadline_at is not None and job.deadline_at - job.created_at == pytest.approx(30.0)
    assert house.messages("gen.m") == ['{"id": "j1", "tag": "j1:1"}']


async def test_no_jobs_are_no_work(house: House) -> None:
    assert await house.jobs.submit([]) == []


async def test_other_tenants_see_nothing(house: House) -> None:
    await submit(house, new_job())
    for wrong in (house.jobs.get("j1", "u"), house.jobs.cancel("j1", "u"), house.jobs.get("j2")):
        with pytest.raises(NotFound):
            await wrong
    assert (await house.jobs.list("u")).jobs == ()
    assert await statuses(house, "j1") == [JobStatus.QUEUED]


async def test_the_same_submit_sent_again_has_no_second_effect(house: House) -> None:
    await submit(house, new_job(key="k"))
    await submit(house, new_job(key="k"))
    assert len(house.messages("gen.m")) == 1
    assert (await house.stats())["submitted"] == 1


async def test_a_key_used_again_for_the_same_request_gives_the_first_job(house: House) -> None:
    await submit(house, new_job("j1", key="k"))
    assert await house.jobs.submit([new_job("j2", key="k")]) == [Submitted(id="j1", is_new=False)]
    with pytest.raises(NotFound):
        await house.jobs.get("j2")


async def test_a_key_used_again_for_another_request_is_a_conflict(house: House) -> None:
    await submit(house, new_job("j1", key="k"))
    [answer] = await house.jobs.submit([new_job("j2", key="k", digest="other")])
    assert isinstance(answer, Conflict)
    assert len(house.messages("gen.m")) == 1


async def test_what_a_key_has_become_can_be_looked_up(house: House) -> None:
    await submit(house, new_job("j1", key="k"))
    earlier = await house.jobs.earlier("t", "k", "d")
    assert earlier == await house.jobs.get("j1")
    with pytest.raises(Conflict):
        await house.jobs.earlier("t", "k", "other")
    assert await house.jobs.earlier("t", "unused", "d") is None
    assert await house.jobs.earlier("another", "k", "d") is None


async def test_two_tenants_may_use_one_key(house: House) -> None:
    await submit(house, new_job("j1", key="b:c", tenant="a"), new_job("j2", key="c", tenant="a:b"))
    await submit(house, new_job("j3", key="b:c", tenant="t"))


async def test_one_group_may_use_a_key_twice(house: House) -> None:
    answers = await house.jobs.submit([new_job("j1", key="k"), new_job("j2", key="k")])
    assert answers == [Submitted(id="j1", is_new=True), Submitted(id="j1", is_new=False)]


async def test_a_full_queue_refuses_and_says_when_to_come_back(house: House) -> None:
    jobs = [new_job(f"j{i}") for i in range(MAX_QUEUE + 2)]
    answers = await house.jobs.submit(jobs)
    assert all(isinstance(a, Submitted) for a in answers[:MAX_QUEUE])
    for answer in answers[MAX_QUEUE:]:
        assert isinstance(answer, TooManyRequests)
        assert 1.0 <= answer.retry_after_s <= 60.0
    assert len(house.messages("gen.m")) == MAX_QUEUE
    await submit(house, new_job("elsewhere", model="n"))


async def test_more_jobs_than_one_script_takes_are_all_answered(house: House) -> None:
    jobs = [new_job(f"j{i}", model=f"m{i % 20}") for i in range(600)]
    await submit(house, *jobs)
    assert (await house.stats())["submitted"] == 600


async def test_interactive_jobs_are_popped_and_counted_before_batch_jobs(house: House) -> None:
    await submit(house, new_job("b1", priority=6), new_job("i1"), new_job("i2"))
    order = ["i1", "i2", "b1"]
    for place, job_id in enumerate(order):
        assert await house.jobs.queue_position(await house.jobs.get(job_id)) == place
    assert [id_of(house.pop("gen.m")) for _ in range(3)] == order


async def test_who_submits_is_told_how_many_are_served_before(house: House) -> None:
    jobs = [new_job("b1", priority=6), new_job("i1"), new_job("i2"), new_job("b2", priority=6)]
    places = [(await house.jobs.submit([job]))[0].position for job in [*jobs, jobs[0]]]
    assert places == [0, 0, 1, 3, 2]


async def test_a_running_job_has_no_queue_position(house: House) -> None:
    await submit(house, new_job())
    house.leases().claim("j1")
    assert await house.jobs.queue_position(await house.jobs.get("j1")) is None


async def test_depth_counts_what_is_queued_over_all_priorities(house: House) -> None:
    await submit(house, new_job("a"), new_job("b", priority=6), new_job("c", priority=9))
    house.leases().claim("a")
    busy, idle = await house.jobs.depths(["gen.m", "gen.none"])
    assert (busy.queue, busy.waiting, idle.waiting, idle.oldest_s) == ("gen.m", 2, 0, 0.0)
    assert (busy.later, idle.later) == (2, 0)
    assert 0.0 <= busy.oldest_s < 5.0
    assert await house.jobs.depths([]) == []


async def test_what_waits_on_workers_own_queues_waits_for_their_model(house: House) -> None:
    await submit(house, new_job("a"), sent(new_job("b"), "w@h"), sent(new_job("c"), "v@h"))
    await submit(house, sent(new_job("d", model="other"), "w@h"))
    [depth] = await house.jobs.depths(["gen.m"])
    assert (depth.queue, depth.waiting, depth.later) == ("gen.m", 3, 0)


async def test_a_job_is_forgotten_once_it_has_ended(house: House) -> None:
    await submit(house, new_job())
    assert not await house.jobs.forget("j1")
    claim = house.leases().claim("j1")
    assert claim is not None
    await house.jobs.cancel("j1")
    keys = await house.jobs.find_objects("j1", "t")
    assert f"t/j1/{claim.fence}/0.png" in keys
    with pytest.raises(NotFound):
        await house.jobs.find_objects("j1", "u")
    assert await house.jobs.forget("j1")
    for ask in (house.jobs.get("j1"), house.jobs.find_objects("j1")):
        with pytest.raises(NotFound):
            await ask


async def test_canceling_a_queued_job_takes_its_message_away(house: House) -> None:
    await submit(house, new_job("j1", deadline_s=60.0), new_job("j2"))
    job = await house.jobs.cancel("j1", "t")
    assert job.status is JobStatus.CANCELED and job.finished_at is not None
    assert [id_of(m) for m in house.messages("gen.m")] == ["j2"]
    assert house.leases().claim("j1") is None


async def test_canceling_a_running_job_tells_its_worker_and_fences_it_off(house: House) -> None:
    await submit(house, new_job())
    leases = house.leases()
    assert list(leases.stops(0.02)) == []
    claim = leases.claim("j1")
    assert claim is not None
    assert (await house.jobs.cancel("j1", "t")).status is JobStatus.CANCELED
    assert next(leases.stops(5.0)) == "j1"
    assert leases.beat({"j1": claim.fence}) == ["j1"]
    assert not leases.finish("j1", claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    assert await statuses(house, "j1") == [JobStatus.CANCELED]


async def test_canceling_twice_or_too_late_changes_nothing(house: House) -> None:
    await submit(house, new_job("j1"), new_job("j2"))
    first = await house.jobs.cancel("j1", "t")
    assert await house.jobs.cancel("j1", "t") == first
    leases = house.leases()
    claim = leases.claim("j2")
    assert claim is not None
    leases.finish("j2", claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    assert (await house.jobs.cancel("j2", "t")).status is JobStatus.SUCCEEDED
    assert (await house.stats())["finished"] == 2


async def test_a_list_is_read_page_by_page_without_gaps(house: House) -> None:
    await submit(house, *[new_job(f"j{i:02}") for i in range(7)])
    await submit(house, new_job("other", tenant="u"))
    seen: list[str] = []
    cursor = None
    for _ in range(5):
        page = await house.jobs.list("t", limit=3, cursor=cursor)
        seen += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert cursor is None and len(seen) == 7 and set(seen) == {f"j{i:02}" for i in range(7)}


async def test_a_list_may_ask_for_one_status(house: House) -> None:
    await submit(house, *[new_job(f"j{i}") for i in range(6)])
    await house.jobs.cancel("j2")
    await house.jobs.cancel("j4")
    page = await house.jobs.list("t", status=JobStatus.CANCELED, limit=5)
    assert {job.id for job in page.jobs} == {"j2", "j4"} and page.cursor is None
    first = await house.jobs.list("t", status=JobStatus.CANCELED, limit=1)
    rest = await house.jobs.list("t", status=JobStatus.CANCELED, limit=5, cursor=first.cursor)
    assert {job.id for job in first.jobs + rest.jobs} == {"j2", "j4"}


async def test_a_cursor_of_nonsense_starts_anew(house: House) -> None:
    await submit(house, new_job())
    assert len((await house.jobs.list("t", cursor="what is this")).jobs) == 1


async def test_a_list_goes_on_after_the_place_of_a_job_that_is_another_cell_s(house: House) -> None:
    await submit(house, *(new_job(f"j{i}") for i in range(5)))
    listed = (await house.jobs.list("t")).jobs
    places = [(round(job.created_at * 1e3), job.id) for job in listed]
    for at_ms, job_id in places:
        place = (at_ms, f"{job_id}x")
        rest = await house.jobs.list("t", cursor=write_cursor(*place))
        assert [job.id for job in rest.jobs] == [name for at, name in places if (at, name) < place]


class Busy:
    """A client during whose trips something happens, once: after the first command sent alone."""

    def __init__(self, client: Redis, happens: Callable[[], Awaitable[object]]) -> None:
        self._client, self._happens = client, [happens]

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    async def execute_command(self, *words: object) -> object:
        answer = await self._client.execute_command(*words)
        while self._happens:
            await self._happens.pop()()
        return answer


@pytest.mark.parametrize("comes", [True, False])
async def test_what_comes_or_goes_while_a_list_is_read_shifts_no_others(
    real: RedisHouse, comes: bool
) -> None:
    await submit(real, *(new_job(f"j{i}") for i in range(6)))
    places = [(round(j.created_at * 1e3), j.id) for j in (await real.jobs.list("t")).jobs]

    async def come() -> None:
        await submit(real, new_job("late"))

    async def go() -> None:
        await real.jobs.cancel(places[0][1])
        assert await real.jobs.forget(places[0][1])

    busy = cast(Redis, Busy(real.client, come if comes else go))
    store = JobStore(busy, max_queue=MAX_QUEUE)
    rest = await store.list("t", cursor=write_cursor(*places[2]))
    assert [job.id for job in rest.jobs] == [name for _, name in places[3:]]


async def test_a_job_keeps_the_span_that_it_was_accepted_in(house: House) -> None:
    trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    await submit(house, replace(new_job(), trace=trace), new_job("j2"))
    assert (await house.jobs.get("j1")).trace == trace
    claim = house.leases().claim("j1")
    assert claim is not None and claim.job.trace == trace
    assert (await house.jobs.get("j2")).trace == ""
