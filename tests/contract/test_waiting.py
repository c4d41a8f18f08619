"""What does a worker see of the jobs that wait for it?"""

from dataclasses import replace

from core.job import Edit, JobRequest
from core.uploads.lora import AppliedLora
from storage.jobs.submit import NewJob
from storage.jobs.waiting import peek
from tests.contract.house import RedisHouse, new_job
from tests.contract.test_jobs import submit
from worker.jobs.prefetch import Prefetcher


async def test_the_heads_of_queues_are_seen_and_left_where_they_are(real: RedisHouse) -> None:
    jobs = [new_job(f"j{number}") for number in range(3)]
    await submit(real, *jobs)
    seen = peek(real.sync, ["gen.m", "gen.other"], 2)
    assert [(each.job_id, each.request) for each in seen] == [(j.id, j.request) for j in jobs[:2]]
    assert {each.queue for each in seen} == {"gen.m"}
    assert len(real.messages("gen.m")) == 3


async def test_a_job_that_was_claimed_waits_no_more(real: RedisHouse) -> None:
    await submit(real, new_job("j1"), new_job("j2"))
    real.leases().claim("j1")
    assert len(peek(real.sync, ["gen.m"], 8)) == 1


async def test_what_edits_need_is_fetched_while_they_wait(real: RedisHouse) -> None:
    edit = new_job("edit", edit=Edit(template="t/i.png", template_sha256="ab", mask="t/m.png"))
    await submit(real, new_job("image"), edit)
    asked: list[JobRequest] = []
    prefetcher = Prefetcher(real.sync, queues=lambda: ["gen.m"], prefetch=asked.append)
    prefetcher.look()
    assert asked == [edit.request]
    assert {each.job_id for each in prefetcher.waiting} == {"image", "edit"}


async def test_what_is_known_is_not_read_again_and_what_has_room_asks_nothing(
    real: RedisHouse,
) -> None:
    await submit(real, new_job("j1"), new_job("j2"))
    is_full, asked = True, []
    prefetcher = Prefetcher(
        real.sync, queues=lambda: ["gen.m"], prefetch=asked.append, is_full=lambda: is_full
    )
    prefetcher.look()
    real.leases().claim("j1")
    real.sync.config_resetstat()
    prefetcher.look()
    assert [each.job_id for each in prefetcher.waiting] == ["j2"]
    assert "cmdstat_hget" not in real.sync.info("commandstats")
    is_full = False
    prefetcher.look()
    assert not prefetcher.waiting


async def test_loras_are_asked_for_ahead_as_far_as_half_their_memory_goes(real: RedisHouse) -> None:
    edit = Edit(template="t/i.png", template_sha256="ab", mask="t/m.png")
    jobs = [
        with_lora(new_job("j1"), "a"),
        with_lora(new_job("j2"), "b"),
        with_lora(new_job("j3", edit=edit), "c"),
    ]
    await submit(real, *jobs)
    asked: list[JobRequest] = []
    recalled: list[JobRequest] = []
    prefetcher = Prefetcher(
        real.sync,
        queues=lambda: ["gen.m"],
        prefetch=asked.append,
        recall=recalled.append,
        loras_bytes=300,
    )
    prefetcher.look()
    prefetcher.look()
    assert asked == 2 * [jobs[0].request]
    assert recalled == 2 * [jobs[1].request, jobs[2].request]


def with_lora(job: NewJob, name: str) -> NewJob:
    use = AppliedLora(id=name, key=name, models=("m",), size_bytes=100, sha256="ab")
    return replace(job, request=replace(job.request, loras=(use,)))
