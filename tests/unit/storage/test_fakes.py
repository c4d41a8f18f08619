"""The fakes on a clock of their own. What they share with Redis is in tests/contract."""

from dataclasses import replace

from core.job import JobRequest, JobStatus, Progress, WebhookTarget
from core.placement import Placement
from storage.fakes import (
    MemoryEvents,
    MemoryJobs,
    MemoryLeases,
    MemoryOutbox,
    MemoryStore,
    MemorySweeper,
)
from storage.jobs.leases import POST_PAUSE_S, Outcome
from storage.jobs.submit import TAG, NewJob


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def a_new_job(job_id: str, deadline_s: float | None = None) -> NewJob:
    request = JobRequest(prompt="p", model="m", width=64, height=64, steps=4, guidance=5.0, seed=1)
    return NewJob(
        id=job_id,
        tenant="t",
        request=request,
        placement=Placement(queue="gen.m", model="m", level="m@0"),
        deadline_s=deadline_s,
        message=f"{job_id} {TAG}",
        priority=0,
    )


async def test_time_passes_only_when_the_clock_says_so() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    jobs, leases = MemoryJobs(store), MemoryLeases(store, lease_s=15.0)
    await jobs.submit([a_new_job("j1")])
    clock.now += 2.5
    claim = leases.claim("j1")
    assert claim is not None and claim.lease_until == 1017.5
    clock.now += 4.0
    assert leases.finish("j1", claim.fence, Outcome(status=JobStatus.SUCCEEDED))
    timing = (await jobs.get("j1")).timing
    assert (timing.queue_s, timing.total_s) == (2.5, 6.5)


async def test_leases_and_deadlines_end_by_the_clock() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    jobs, leases, sweeper = MemoryJobs(store), MemoryLeases(store), MemorySweeper(store)
    await jobs.submit([a_new_job("lost"), a_new_job("late", deadline_s=20.0)])
    leases.claim("lost")
    clock.now += 14.9
    assert (await sweeper.reap()).back == () and await sweeper.expire() == []
    clock.now += 5.1
    assert (await sweeper.reap()).back == ("lost",)
    assert await sweeper.expire() == ["late"]
    assert store.pop("gen.m") == "lost lost:2"


async def test_two_claims_in_one_millisecond_have_fences_that_follow_each_other() -> None:
    store = MemoryStore(clock=Clock())
    jobs, leases = MemoryJobs(store), MemoryLeases(store)
    await jobs.submit([a_new_job("j1")])
    first = leases.claim("j1")
    assert first is not None and leases.release({"j1": first.fence}) == 1
    second = leases.claim("j1")
    assert second is not None and second.fence == first.fence + 1


async def test_what_was_claimed_is_missing_no_more() -> None:
    store = MemoryStore(clock=Clock())
    await MemoryJobs(store).submit([a_new_job("j1")])
    store.pop("gen.m")
    await MemorySweeper(store).republish(60.0)
    assert set(store.missing) == {"j1"}
    assert MemoryLeases(store).claim("j1") is not None
    assert not store.missing


async def test_progress_is_posted_again_once_its_pause_is_over() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    new = a_new_job("j1")
    hook = WebhookTarget(url="https://client.example/hook", events=("progress",))
    await MemoryJobs(store).submit([replace(new, request=replace(new.request, webhook=hook))])
    leases = MemoryLeases(store)
    assert leases.claim("j1") is not None
    for step, pause_s in enumerate((0.0, POST_PAUSE_S - 1, 1.0), 1):
        clock.now += pause_s
        leases.progress({"j1": Progress(step=step, steps=4)})
    assert [name.rpartition(":")[2] for name in store.outbox] == ["1", "3"]


async def test_a_webhook_that_was_given_up_is_kept_for_a_week() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    jobs, outbox = MemoryJobs(store), MemoryOutbox(store)
    hook = WebhookTarget(url="https://client.example/hook", events=("completed",))
    for name in ("j1", "j2"):
        new = a_new_job(name)
        await jobs.submit([replace(new, request=replace(new.request, webhook=hook))])
        await jobs.cancel(name)
    assert await outbox.dead("j1:completed")
    clock.now += 7 * 86_400 - 1
    assert await outbox.get_dead("j1:completed", "t") is not None
    clock.now += 1
    assert await outbox.get_dead("j1:completed", "t") is None
    assert (await outbox.list_dead("t")).dead == ()
    assert await outbox.dead("j2:completed")
    assert set(store.dead) == {"j2:completed"}


async def test_a_worker_hears_until_when_a_job_is_followed_and_its_previews_are_wanted() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    leases, events = MemoryLeases(store, lease_s=60.0), MemoryEvents(store)
    await MemoryJobs(store).submit([a_new_job("j1")])
    claim = leases.claim("j1")
    await events.announce("j1", 10, previews=True)
    await events.announce("j1", 20)
    for seconds, followed in ((9.0, {"j1": True}), (1.0, {"j1": False}), (10.0, {})):
        clock.now += seconds
        assert claim is not None and leases.beat({"j1": claim.fence}) == []
        assert leases.followed == followed
