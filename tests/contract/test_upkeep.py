import asyncio
from dataclasses import replace

import pytest

from core.job import Edit, Failure, JobStatus
from core.latents import latents_key
from core.levels.approximation import SKIPS
from storage.jobs.jobs import JobStore
from storage.jobs.leases import Outcome
from storage.jobs.sweeps import MAX_PUBLICATIONS
from tests.contract.house import (
    House,
    RedisHouse,
    id_of,
    message_of,
    moved,
    new_job,
    sent,
    statuses,
)
from tests.contract.test_leases import DONE

LAPSE_S = 0.01


async def lapse(house: House, job_id: str, worker: str = "w1") -> int:
    """Claim with a short lease and let it run out; return the fence."""
    claim = house.leases(worker, lease_s=LAPSE_S / 2).claim(job_id)
    assert claim is not None
    await asyncio.sleep(LAPSE_S)
    return claim.fence


async def test_a_job_whose_worker_is_lost_is_popped_next(house: House) -> None:
    await house.jobs.submit([new_job("j1"), new_job("j2")])
    assert id_of(house.pop("gen.m")) == "j1"
    await lapse(house, "j1")
    reaped = await house.sweeper().reap()
    assert (reaped.back, reaped.ended) == (("j1",), ())
    assert await house.jobs.queue_position(await house.jobs.get("j1")) == 0
    assert id_of(house.pop("gen.m")) == "j1"
    assert (await house.sweeper().reap()).back == ()
    assert (await house.stats())["reaped"] == 1


async def test_every_publication_has_its_own_delivery_tag(house: House) -> None:
    await house.jobs.submit([new_job()])
    first = house.pop("gen.m")
    await lapse(house, "j1")
    await house.sweeper().reap()
    assert first == '{"id": "j1", "tag": "j1:1"}'
    assert house.messages("gen.m") == ['{"id": "j1", "tag": "j1:2"}']


async def test_a_job_that_kills_its_workers_is_buried(house: House) -> None:
    await house.jobs.submit([new_job(hook=("completed",))])
    sweeper = house.sweeper(max_attempts=2)
    await lapse(house, "j1")
    assert (await sweeper.reap()).back == ("j1",)
    await lapse(house, "j1")
    assert (await sweeper.reap()).ended == ("j1",)
    job = await house.jobs.get("j1")
    assert job.status is JobStatus.FAILED and job.attempts == 2
    assert job.failure is not None and job.failure.type == "attempts_exhausted"
    assert (await house.stats())["jobs_dead"] == 1
    assert [d.event for d in await house.outbox.due()] == ["completed"]


async def test_the_lost_worker_is_told_to_stop_in_case_it_lives(house: House) -> None:
    await house.jobs.submit([new_job()])
    zombie = house.leases("w1", lease_s=LAPSE_S / 2)
    list(zombie.stops(0.02))
    zombie.claim("j1")
    await asyncio.sleep(LAPSE_S)
    await house.sweeper().reap()
    assert next(zombie.stops(5.0)) == "j1"


async def test_a_lost_message_is_published_again_once_it_is_surely_missing(house: House) -> None:
    await house.jobs.submit([new_job(f"j{i}") for i in range(4)])
    sweeper = house.sweeper()
    assert id_of(house.pop("gen.m")) == "j0", "popped by a worker that dies at once"
    assert await sweeper.republish(60.0) == []
    assert await sweeper.republish(60.0) == []
    await asyncio.sleep(0.05)
    assert await sweeper.republish(0.03) == ["j0"]
    assert await sweeper.republish(0.0) == []
    assert sorted(str(id_of(m)) for m in house.messages("gen.m")) == ["j0", "j1", "j2", "j3"]
    assert (await house.stats())["republished"] == 1


async def test_a_job_claimed_meanwhile_is_not_published_again(house: House) -> None:
    await house.jobs.submit([new_job()])
    house.pop("gen.m")
    assert await house.sweeper().republish(60.0) == [], "seen to be missing"
    assert house.leases().claim("j1") is not None
    assert await house.sweeper().republish(0.0) == []
    assert (await house.stats()).get("republished", 0) == 0


async def test_a_full_list_is_left_alone(house: House) -> None:
    await house.jobs.submit([new_job("a"), new_job("b", priority=6)])
    for _ in range(2):
        assert await house.sweeper().republish(0.0) == []
    assert len(house.messages("gen.m")) == 2


async def test_a_message_nobody_can_read_is_given_up_at_last(house: House) -> None:
    await house.jobs.submit([new_job()])
    for _ in range(2 * MAX_PUBLICATIONS + 2):
        house.pop("gen.m")
        await house.sweeper().republish(0.0)
    job = await house.jobs.get("j1")
    assert job.failure is not None and job.failure.type == "undeliverable"


async def test_a_message_that_a_worker_could_read_counts_from_nothing_again(house: House) -> None:
    await house.jobs.submit([new_job()])
    sweeper = house.sweeper()
    for is_claimed in (True, False):
        for _ in range(MAX_PUBLICATIONS - 1):
            house.pop("gen.m")
            assert await sweeper.republish(0.0) == ["j1"]
        house.pop("gen.m")
        if is_claimed and (claim := house.leases().claim("j1")):
            assert house.leases().release({"j1": claim.fence}) == 1
    assert await sweeper.republish(0.0) == []
    assert await statuses(house, "j1") == [JobStatus.FAILED]


async def test_late_jobs_expire_wherever_they_are(house: House) -> None:
    await house.jobs.submit([new_job("q", deadline_s=600.0), new_job("r", deadline_s=600.0)])
    await house.jobs.submit([new_job("later", deadline_s=60.0), new_job("never")])
    leases = house.leases("w1")
    list(leases.stops(0.001))
    claim = leases.claim("r")
    assert claim is not None
    for late in ("q", "r"):
        house.pass_deadline(late)
    assert sorted(await house.sweeper().expire()) == ["q", "r"]
    assert await house.sweeper().expire() == []
    assert next(leases.stops(5.0)) == "r"
    assert not leases.finish("r", claim.fence, DONE)
    expected = [JobStatus.EXPIRED, JobStatus.EXPIRED, JobStatus.QUEUED, JobStatus.QUEUED]
    assert await statuses(house, "q", "r", "later", "never") == expected
    assert sorted(str(id_of(m)) for m in house.messages("gen.m") if id_of(m) != "r") == [
        "later",
        "never",
    ]


async def test_retention_forgets_a_job_and_names_its_objects(house: House) -> None:
    await house.jobs.submit([new_job("j1"), new_job("j2"), new_job("j3", n=2)])
    leases = house.leases()
    claim = leases.claim("j1")
    assert claim is not None
    leases.finish("j1", claim.fence, DONE)
    fence = await lapse(house, "j3")
    sweeper = house.sweeper(max_attempts=1)
    await sweeper.reap()
    assert await sweeper.find_old(60.0) == []
    await asyncio.sleep(0.002)
    old = {job.id: job.keys for job in await sweeper.find_old(0.0)}
    assert old == {
        "j1": (*latents_of("j1"), "t/j1/1/0.png"),
        "j3": (*latents_of("j3"), f"t/j3/{fence}/0.png", f"t/j3/{fence}/1.png"),
    }
    assert len((await house.jobs.list("t")).jobs) == 3, "they stay until their objects are gone"
    assert await sweeper.forget(["j1", "j2", "j3", "unknown"]) == 2
    assert [job.id for job in (await house.jobs.list("t")).jobs] == ["j2"]


def latents_of(job_id: str) -> list[str]:
    """Also of a job that nobody announced as a lender."""
    return sorted(latents_key("t", job_id, k) for k in SKIPS)


async def test_retention_names_the_inputs_of_an_edit_and_never_a_template_of_its_owner(
    house: House,
) -> None:
    edit = Edit(template="t/j1/inputs/template.png", template_sha256="ab", mask="t/templates/m.png")
    await house.jobs.submit([new_job("j1", edit=edit)])
    await house.jobs.cancel("j1")
    await asyncio.sleep(0.002)
    (old,) = await house.sweeper().find_old(0.0)
    assert old.keys == ("t/j1/inputs/template.png",)


async def test_a_key_whose_job_was_forgotten_may_be_used_anew(house: House) -> None:
    await house.jobs.submit([new_job("j1", key="k")])
    await house.jobs.cancel("j1")
    await house.sweeper().forget(["j1"])
    [answer] = await house.jobs.submit([new_job("j2", key="k", digest="other")])
    assert getattr(answer, "is_new", False)


async def test_jobs_nobody_serves_are_found_and_moved(house: House) -> None:
    stranded = new_job("j1", model="gone", priority=6)
    await house.jobs.submit([stranded, new_job("j2", model="m")])
    sweeper, on_m = house.sweeper(), replace(stranded.request, model="m", steps=7)
    assert await sweeper.rescue({"gen.m"}) == ["j1"]
    assert await sweeper.move("j1", on_m, moved(stranded, "m"), message_of("j1"))
    assert await sweeper.rescue({"gen.m"}) == []
    assert house.messages("gen.gone") == []
    assert [id_of(house.pop("gen.m")) for _ in range(2)] == ["j2", "j1"]
    job = await house.jobs.get("j1")
    assert (job.placement.queue, job.request) == ("gen.m", on_m)


async def test_no_crowd_that_waits_for_its_model_hides_those_behind_it(real: RedisHouse) -> None:
    ids = [f"j{number}" for number in range(150)]
    jobs = JobStore(real.client, max_queue=len(ids))
    await jobs.submit([new_job(each, model="gone") for each in ids])
    assert sorted(await real.sweeper().rescue({"gen.m"})) == sorted(ids)


async def test_a_workers_own_queue_is_forgotten_with_its_last_job(real: RedisHouse) -> None:
    await real.jobs.submit([sent(new_job("j1"), "w@h"), new_job("j2", model="n")])
    for is_there in (True, False):
        await real.sweeper().republish(60.0)
        known = set(await real.client.smembers("queues"))
        assert known == {b"gen.n", *([b"gen.m@w@h"] if is_there else [])}
        await real.jobs.cancel("j1")
    await real.jobs.submit([sent(new_job("j3"), "w@h")])
    assert await real.sweeper().rescue({"gen.n"}) == ["j3"]


@pytest.mark.parametrize("how", ["released", "reaped"])
async def test_a_job_that_comes_back_to_a_queue_that_was_forgotten_is_found(
    house: House, how: str
) -> None:
    """The queue of a worker is empty while it makes the only edit that was sent to it."""
    job = sent(new_job(), "w9")
    await house.jobs.submit([job])
    house.pop(job.placement.queue)
    leases, sweeper = house.leases("w9", lease_s=60.0), house.sweeper()
    claim = leases.claim("j1")
    assert claim is not None
    await sweeper.republish(0.0)
    assert await sweeper.rescue(served=set()) == []
    if how == "released":
        assert leases.release({"j1": claim.fence}) == 1
    else:
        leases.forfeit({"j1": claim.fence})
        assert (await sweeper.reap()).back == ("j1",)
    assert await sweeper.rescue(served=set()) == ["j1"]


async def test_only_queued_jobs_are_moved(house: House) -> None:
    job = new_job()
    await house.jobs.submit([job])
    claim = house.leases().claim("j1")
    assert claim is not None
    assert not await house.sweeper().move("j1", job.request, moved(job, "n"), message_of("j1"))
    assert not await house.sweeper().move("j9", job.request, moved(job, "n"), message_of("j9"))
    assert house.leases().finish("j1", claim.fence, Outcome(status=JobStatus.SUCCEEDED))


async def test_only_messages_nobody_could_read_count_against_a_job(house: House) -> None:
    await house.jobs.submit([new_job()])
    leases = house.leases()
    for _ in range(MAX_PUBLICATIONS):
        house.pop("gen.m")
        claim = leases.claim("j1")
        assert claim is not None and leases.release({"j1": claim.fence}) == 1
    house.pop("gen.m")
    await house.sweeper().republish(0.0)
    assert id_of(house.pop("gen.m")) == "j1"


async def test_what_has_just_ended_is_found_the_latest_first(lately: House) -> None:
    house = lately
    sweeper = house.sweeper()
    assert await sweeper.find_finished(0.0, 10) == []
    await house.jobs.submit([new_job(name) for name in ("a", "b", "c")])
    for name in ("a", "b"):
        await house.jobs.cancel(name)
        await asyncio.sleep(0.003)
    second, first = await sweeper.find_finished(0.0, 10)
    assert (first.id, second.id) == ("a", "b")
    assert [job.id for job in await sweeper.find_finished(first.at, 10)] == ["b"]
    assert [job.id for job in await sweeper.find_finished(0.0, 1)] == ["b"]
    assert await sweeper.find_finished(second.at, 10) == []


async def test_a_queued_job_that_nobody_will_make_is_buried_with_the_reason(house: House) -> None:
    await house.jobs.submit([new_job("j1", hook=("completed",)), new_job("j2")])
    house.leases("w1").claim("j2")
    why = Failure(type="model_removed", title="It is gone", detail="Ask for another.")
    assert await house.sweeper().give_up("j1", why)
    job = await house.jobs.get("j1")
    assert (job.status, job.failure, job.is_buried) == (JobStatus.FAILED, why, True)
    assert "j1" not in str(house.messages("gen.m"))
    assert not await house.sweeper().give_up("j1", why)
    assert not await house.sweeper().give_up("j2", why)
    assert not await house.sweeper().give_up("nobody", why)
