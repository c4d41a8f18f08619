"""Jobs of a tenant that are kept for a time of their own."""

import asyncio

from core.boards.score import Score
from core.job import JobStatus
from storage.boards.scores import FIRST
from storage.fakes import MemoryObjects
from storage.jobs.leases import Outcome
from storage.jobs.submit import LOOK, expect
from tasks.upkeep.retention import Retention
from tests.contract.house import ArchivingHouse, House, RedisHouse, new_job

SHORT_S = 0.02
LONG_S = 3.0  #: a slow machine submits and ends a job in less


async def ended(house: House, *ids: str, tenant: str = "t") -> None:
    await house.jobs.submit([new_job(job_id, tenant=tenant) for job_id in ids])
    for job_id in ids:
        claim = house.leases().claim(job_id, is_exact=True)
        assert claim is not None
        outcome = Outcome(status=JobStatus.SUCCEEDED)
        assert house.leases().finish(job_id, claim.fence, outcome)


async def left(house: House, tenant: str) -> list[str]:
    return sorted(job.id for job in (await house.jobs.list(tenant)).jobs)


async def test_what_is_old_to_its_tenant_goes_and_others_stay(house: House) -> None:
    await house.jobs.submit([new_job("open")])
    await ended(house, "a", "b")
    await ended(house, "c", tenant="u")
    await asyncio.sleep(1.1 * LONG_S)
    await ended(house, "new")
    await Retention(house.sweeper(), MemoryObjects()).retain_own({"t": LONG_S, "v": LONG_S})
    assert await left(house, "t") == ["new", "open"]
    assert await left(house, "u") == ["c"]


async def test_jobs_that_have_not_ended_keep_no_others(house: House) -> None:
    many = [new_job(f"open{i:03}", tenant="t") for i in range(40)]
    await house.jobs.submit(many)
    await ended(house, "z")
    await asyncio.sleep(2 * SHORT_S)
    looked, old = await house.sweeper().find_old_of("t", SHORT_S, 0)
    in_store = not isinstance(house, ArchivingHouse)
    assert looked == 40 + in_store and [job.id for job in old] == ["z"] * in_store
    looked, old = await house.sweeper().find_old_of("t", SHORT_S, 40)
    assert looked == 1 and [job.id for job in old] == ["z"]
    await Retention(house.sweeper(), MemoryObjects()).retain_own({"t": SHORT_S})
    assert len(await left(house, "t")) == 20  # a page


async def test_prompts_that_were_scored_go_with_the_jobs_of_their_tenant(house: House) -> None:
    for job_id, tenant in (("a", "t"), ("c", "u")):
        await ended(house, job_id, tenant=tenant)
        await house.scores.add([Score(job=job_id, prompt="p", level="m@0", quality=0.5)])
    await asyncio.sleep(2 * SHORT_S)
    await Retention(house.sweeper(), MemoryObjects()).retain_own({"t": SHORT_S})
    assert [each.job for each in (await house.scores.after(FIRST, 10)).scores] == ["c"]


async def test_of_what_was_stored_before_jobs_that_is_found_whose_job_never_came(
    house: House,
) -> None:
    for name in ("waits", "has ended", "lost"):
        await house.jobs.expect(name, [f"t/{name}/in/template.png", f"t/{name}/in/mask.png"])
    await house.jobs.submit([new_job("waits")])
    await ended(house, "has ended")
    assert await house.expected.find(60.0) == []
    await asyncio.sleep(0.002)
    assert await house.jobs.get("has ended")
    expected = await house.expected.find(0.0)
    assert [each.has_come for each in expected] == [True, True, False]
    assert expected[-1].keys == ("t/lost/in/template.png", "t/lost/in/mask.png")
    await house.expected.settle(expected[:2])
    assert await house.expected.find(0.0) == expected[2:]
    await house.expected.settle(expected[2:])
    assert await house.expected.find(0.0) == []


async def test_notes_are_read_a_few_at_a_time(house: House) -> None:
    for number in range(LOOK + 1):
        await house.jobs.expect(f"j{number}", ["t/j/in/image.png"])
    await asyncio.sleep(0.002)
    found = await house.expected.find(0.0)
    await house.expected.settle(found)
    assert (len(found), len(await house.expected.find(0.0))) == (LOOK, 1)


async def test_notes_are_read_on_after_one_that_is_gone(house: House) -> None:
    for name in ("a", "b", "c"):
        await house.jobs.expect(name, [f"t/{name}/in/image.png"])
    await asyncio.sleep(0.002)
    first, *rest = await house.expected.find(0.0)
    await house.expected.settle([first])
    assert await house.expected.find(0.0, first.note) == rest
    assert await house.expected.find(0.0, rest[-1].note) == []


async def test_no_more_than_so_many_notes_are_kept(real: RedisHouse) -> None:
    for number in range(500):
        await expect(real.client, f"j{number}", ["t/j/in/image.png"], max_notes=100)
    assert 100 <= real.sync.xlen("expected") < 300, "about so many"
