import asyncio
import time
from dataclasses import replace

from core.job import Claim, Failure, JobStatus, Progress, StoredImage, Timing
from storage.jobs.leases import Leases, Outcome
from storage.redis.script import call_sync, load, pairs
from tests.contract.house import House, RedisHouse, id_of, new_job, statuses

IMAGE = StoredImage(key="t/j1/1/0.png", width=64, height=64, seed=7, sha256="ab" * 32)
DONE = Outcome(status=JobStatus.SUCCEEDED, images=(IMAGE,), timing=Timing(denoise_s=1.5))


async def running(house: House, leases: Leases, **options: object) -> Claim:
    await house.jobs.submit([new_job(**options)])  # type: ignore[arg-type]
    house.pop("gen.m")
    claim = leases.claim("j1")
    assert claim is not None
    return claim


async def test_a_claim_gives_the_job_a_fence_and_a_lease(house: House) -> None:
    claim = await running(house, house.leases("w9", lease_s=30.0))
    job = claim.job
    assert (job.fence, job.attempts, job.worker) == (claim.fence, 1, "w9")
    assert job.status is JobStatus.RUNNING and job.started_at is not None
    assert 29.0 < claim.lease_until - job.started_at < 31.0
    assert job.request == new_job().request
    assert await house.jobs.get("j1") == job


async def test_only_one_of_two_claims_gets_the_job(house: House) -> None:
    await running(house, house.leases("w1"))
    assert house.leases("w2").claim("j1") is None
    assert house.leases("w1").claim("j1") is None
    assert house.leases().claim("unknown") is None


async def test_finishing_stores_images_timing_and_the_time(house: House) -> None:
    leases = house.leases()
    claim = await running(house, leases)
    assert leases.finish("j1", claim.fence, DONE)
    job = await house.jobs.get("j1")
    assert (job.status, job.images, job.failure) == (JobStatus.SUCCEEDED, (IMAGE,), None)
    assert job.finished_at is not None
    assert job.timing.denoise_s == 1.5
    assert job.timing.total_s == round(job.finished_at - job.created_at, 3)
    stats = await house.stats()
    assert stats["jobs:generate:succeeded"] == stats["level:m@0"] == stats["finished"] == 1


async def test_the_level_that_was_really_reached_is_kept_and_counted(house: House) -> None:
    leases = house.leases()
    claim = await running(house, leases)
    placed = claim.job.placement
    reached = replace(placed, level="m@10", skipped_steps=10)
    assert leases.finish("j1", claim.fence, replace(DONE, placement=reached))
    assert (await house.jobs.get("j1")).placement == reached
    stats = await house.stats()
    assert stats["level:m@10"] == 1 and "level:m@0" not in stats


async def test_a_failure_is_kept_as_the_client_will_read_it(house: House) -> None:
    leases = house.leases()
    claim = await running(house, leases)
    failure = Failure(type="out_of_memory", title="No room", detail="Ask for a smaller image.")
    assert leases.finish("j1", claim.fence, Outcome(status=JobStatus.FAILED, failure=failure))
    job = await house.jobs.get("j1")
    assert (job.status, job.failure, job.images) == (JobStatus.FAILED, failure, ())


async def test_finishing_again_after_a_lost_answer_says_yes_and_counts_once(house: House) -> None:
    leases = house.leases()
    claim = await running(house, leases)
    assert leases.finish("j1", claim.fence, DONE)
    assert leases.finish("j1", claim.fence, DONE)
    assert not leases.finish("j1", claim.fence, Outcome(status=JobStatus.FAILED))
    assert (await house.stats())["finished"] == 1


async def test_a_stale_claim_can_neither_finish_nor_beat_nor_report(house: House) -> None:
    zombie, winner = house.leases("w1", lease_s=0.02), house.leases("w2")
    old = await running(house, zombie)
    await asyncio.sleep(0.03)
    assert (await house.sweeper().reap()).back == ("j1",)
    assert not zombie.finish("j1", old.fence, DONE), "nobody has claimed it again yet"
    new = winner.claim("j1")
    assert new is not None and new.fence > old.fence
    assert zombie.beat({"j1": old.fence}) == ["j1"]
    zombie.progress({"j1": Progress(step=3, steps=4)})
    assert not zombie.finish("j1", old.fence, DONE)
    assert not zombie.finish("j1", new.fence, DONE), "the fence alone does not make it the owner"
    job = await house.jobs.get("j1")
    assert (job.status, job.worker, job.progress.step) == (JobStatus.RUNNING, "w2", 0)
    assert winner.finish("j1", new.fence, DONE)
    assert (await house.stats())["fenced"] == 3


async def test_a_beat_keeps_the_lease(house: House) -> None:
    leases = house.leases(lease_s=60.0)
    claim = await running(house, house.leases(lease_s=0.5))
    assert leases.beat({"j1": claim.fence}) == []
    await asyncio.sleep(0.51)
    assert (await house.sweeper().reap()).back == ()
    assert leases.beat({}) == []
    assert leases.beat({"j1": claim.fence, "gone": 1}) == ["gone"]


async def test_a_beat_of_another_worker_neither_keeps_a_job_nor_its_lease(house: House) -> None:
    leases = house.leases("w1", lease_s=0.05)
    claim = await running(house, leases)
    assert house.leases("w2").beat({"j1": claim.fence}) == ["j1"]
    await asyncio.sleep(0.06)
    assert (await house.sweeper().reap()).back == ("j1",)


async def test_a_job_past_its_deadline_is_expired_instead_of_claimed(house: House) -> None:
    await house.jobs.submit([new_job(deadline_s=0.005)])
    await asyncio.sleep(0.01)
    assert house.leases().claim("j1") is None
    assert await statuses(house, "j1") == [JobStatus.EXPIRED]
    assert house.messages("gen.m") == []


async def test_a_job_tried_too_often_is_buried_instead_of_claimed(house: House) -> None:
    leases = house.leases(lease_s=0.001, max_attempts=1)
    await running(house, leases)
    await asyncio.sleep(0.01)
    await house.sweeper(max_attempts=9).reap()
    assert leases.claim("j1") is None
    job = await house.jobs.get("j1")
    assert job.failure is not None and job.failure.type == "attempts_exhausted"


async def test_a_released_job_is_popped_next_and_keeps_its_attempts(house: House) -> None:
    leases = house.leases()
    claim = await running(house, leases)
    await house.jobs.submit([new_job("j2")])
    assert leases.release({"j1": claim.fence, "unknown": 4}) == 1
    assert leases.release({"j1": claim.fence}) == 0 == leases.release({})
    assert id_of(house.pop("gen.m")) == "j1"
    again = house.leases("w2").claim("j1")
    assert again is not None and again.job.attempts == 1 and again.fence > claim.fence


async def test_a_forfeited_job_goes_the_way_of_a_lost_worker_at_once(house: House) -> None:
    leases = house.leases()
    claim = await running(house, leases)
    leases.forfeit({})
    leases.forfeit({"j1": claim.fence + 1})
    assert not (await house.sweeper().reap()).back
    leases.forfeit({"j1": claim.fence, "unknown": 4})
    assert (await house.sweeper().reap()).back == ("j1",)
    assert (await house.jobs.get("j1")).attempts == 1


async def test_progress_is_kept_and_told(house: House) -> None:
    leases = house.leases()
    claim = await running(house, leases)
    await house.events.announce("j1")
    leases.progress({"j1": Progress(step=2, steps=4), "never claimed": Progress(step=1, steps=2)})
    leases.progress({})
    assert (await house.jobs.get("j1")).progress == Progress(step=2, steps=4)
    leases.finish("j1", claim.fence, DONE)
    told = [(e.event, dict(e.data)) async for e in house.events.follow("j1")]
    assert told == [
        ("status", {"status": "running", "attempts": 1}),
        ("progress", {"step": 2, "steps": 4}),
        ("done", {"status": "succeeded"}),
    ]


async def test_a_beat_of_a_void_claim_does_not_silence_the_claim_after_it(house: House) -> None:
    await house.jobs.submit([new_job()])
    leases = house.leases("w1", lease_s=0.005)
    old = leases.claim("j1")
    await asyncio.sleep(0.01)
    await house.sweeper().reap()
    assert old is not None and leases.claim("j1") is not None
    assert leases.beat({"j1": old.fence}) == ["j1"]
    leases.progress({"j1": Progress(step=2, steps=4)})
    assert (await house.jobs.get("j1")).progress.step == 2


async def test_a_claim_the_store_lost_in_a_crash_never_shares_its_fence(real: RedisHouse) -> None:
    await real.jobs.submit([new_job()])
    before = real.sync.hgetall("job:j1")
    first = real.leases("w1").claim("j1")
    real.sync.delete("job:j1", "leases", "held:w1")
    real.sync.hset("job:j1", mapping=before)  # type: ignore[arg-type]
    await asyncio.sleep(0.002)
    second = real.leases("w2").claim("j1")
    assert first is not None and second is not None and second.fence > first.fence


async def told(house: House, job_id: str = "j1") -> list[tuple[str, dict[str, object]]]:
    return [(event.event, dict(event.data)) async for event in house.events.follow(job_id)]


async def test_every_way_back_to_the_queue_is_told_to_who_follows(house: House) -> None:
    claim = await running(house, house.leases())
    assert house.leases().release({"j1": claim.fence}) == 1
    assert house.leases("w2", lease_s=0.01).claim("j1") is not None
    await asyncio.sleep(0.02)
    await house.sweeper().reap()
    await house.jobs.cancel("j1")
    told_ = [data["status"] for event, data in await told(house)]
    assert told_ == ["running", "queued", "running", "queued", "canceled"]


async def test_one_call_reports_or_releases_several_jobs(house: House) -> None:
    ids = ("j1", "j2", "j3")
    await house.jobs.submit([new_job(job_id) for job_id in ids])
    leases = house.leases()
    held = {job_id: claim.fence for job_id in ids if (claim := leases.claim(job_id))}
    steps = {job_id: Progress(step=at, steps=4) for at, job_id in enumerate(ids, 1)}
    leases.progress(steps)
    assert [(await house.jobs.get(job_id)).progress for job_id in ids] == list(steps.values())
    assert leases.release(held) == 3
    assert await statuses(house, *ids) == [JobStatus.QUEUED] * 3


async def test_who_lost_a_job_unawares_reports_nothing_of_it(house: House) -> None:
    zombie = house.leases("w1", lease_s=0.01)
    await running(house, zombie)
    await asyncio.sleep(0.02)
    await house.sweeper().reap()
    zombie.progress({"j1": Progress(step=1, steps=4)})
    house.leases("w2").claim("j1")
    zombie.progress({"j1": Progress(step=2, steps=4)})
    assert (await house.jobs.get("j1")).progress.step == 0


async def test_nothing_is_told_of_a_job_that_has_ended(house: House) -> None:
    leases = house.leases()
    await running(house, leases)
    await house.jobs.cancel("j1")
    leases.progress({"j1": Progress(step=3, steps=4)})
    assert [event for event, _ in await told(house)] == ["status", "done"]
    assert (await house.jobs.get("j1")).progress.step == 0


async def test_progress_is_posted_under_the_claim_and_the_step(house: House) -> None:
    leases = house.leases()
    claim = await running(house, leases, hook=("progress",))
    leases.progress({"j1": Progress(step=3, steps=4)})
    assert [post.id for post in await house.outbox.due()] == [f"j1:progress:{claim.fence}:3"]


async def test_the_fence_of_a_claim_is_the_time_of_the_store(house: House) -> None:
    before = int(time.time() * 1000)
    claim = await running(house, house.leases())
    assert before <= claim.fence <= time.time() * 1000 + 1


async def test_what_does_not_own_a_job_is_told_no_and_nothing_else(house: House) -> None:
    leases = house.leases()
    await running(house, leases)
    assert leases.finish("j1", 1, DONE) is False
    assert leases.claim("j1") is None


async def test_a_lost_job_past_its_deadline_expires_instead_of_coming_back(house: House) -> None:
    await running(house, house.leases(lease_s=0.01), deadline_s=600.0)
    house.pass_deadline("j1")
    await asyncio.sleep(0.02)
    reaped = await house.sweeper().reap()
    assert (reaped.back, reaped.ended) == ((), ("j1",))
    assert await statuses(house, "j1") == [JobStatus.EXPIRED]


async def test_a_claim_whose_answer_was_lost_is_given_again_to_who_asks_again(
    real: RedisHouse,
) -> None:
    await real.jobs.submit([new_job()])
    asked = ("j1", "w1", 60_000, "token", 0)
    answers = [call_sync(real.sync, load("claim"), *asked) for _ in range(2)]
    (name, first), (again, second) = answers
    assert name == again == b"j1"
    assert pairs(first) == pairs(second)
    assert not call_sync(real.sync, load("claim"), "j1", "w1", 60_000, "another", 0)


async def test_a_fence_is_above_the_last_one_even_if_the_clock_was_turned_back(
    real: RedisHouse,
) -> None:
    await real.jobs.submit([new_job()])
    ahead = int(time.time() * 1000) + 10**6
    real.sync.hset("job:j1", "fence", ahead)
    claim = real.leases().claim("j1")
    assert claim is not None and claim.fence == ahead + 1


async def test_what_was_claimed_is_missing_no_more(real: RedisHouse) -> None:
    await real.jobs.submit([new_job()])
    real.pop("gen.m")
    await real.sweeper().republish(60.0)
    assert real.sync.zrange("missing", 0, -1) == [b"j1"]
    assert real.leases().claim("j1") is not None
    await real.sweeper().republish(60.0)
    assert real.sync.zcard("missing") == 0


async def test_a_beat_says_until_when_in_the_record_too(real: RedisHouse) -> None:
    leases = real.leases(lease_s=60.0)
    claim = await running(real, leases)
    step = Progress(step=1, steps=4)
    for beat in (lambda: leases.beat({"j1": claim.fence}), lambda: leases.progress({"j1": step})):
        await asyncio.sleep(0.01)
        beat()
        until = real.sync.hget("job:j1", "lease_until")
        assert until is not None and claim.lease_until * 1000 < int(until) == lease_score(real)


def lease_score(real: RedisHouse) -> float | None:
    return real.sync.zscore("leases", "j1")  # type: ignore[return-value]


async def test_a_lease_of_a_job_that_does_not_run_is_forgotten(real: RedisHouse) -> None:
    await real.jobs.submit([new_job()])
    real.sync.zadd("leases", {"j1": 0})
    reaped = await real.sweeper().reap()
    assert (reaped.back, reaped.ended, lease_score(real)) == ((), (), None)
