"""The twins on a clock of their own. What they share with Redis is in tests/contract."""

from core.job import JobRequest, JobStatus
from core.placement import Placement
from storage.jobs import TAG, NewJob
from storage.leases import Outcome
from storage.memory import MemoryJobs, MemoryLeases, MemoryStore, MemorySweeper


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
