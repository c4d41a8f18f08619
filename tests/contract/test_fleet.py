import asyncio
import time
from dataclasses import replace
from random import Random

import pytest

from core.boards.fleet import Worker
from core.boards.plan import PasmRow, Plan, WorkerAssignment
from storage.boards.fleet import AssignmentReader, PlanBoard
from storage.redis.keys import PLANNERS
from storage.redis.script import call_sync, load
from tests.contract.house import House, RedisHouse

PLAN = Plan(
    version=1,
    fence=5,
    made_at=1.0,
    policy="atelier",
    assignments={"w1@h": "m"},
    pasm=(PasmRow(application="default", affinity="any", shares={"m@0": 1.0}),),
    levels={"m@0": 2.5},
)


def a_worker(name: str) -> Worker:
    return Worker(
        name=name, device_type="cpu", models=("m",), queues=("gen.m",), memory_gib=4.0, running=2
    )


async def test_a_worker_that_reports_is_in_the_fleet(house: House) -> None:
    for name in ("w2@h", "w1@h"):
        house.report(a_worker(name))
    house.report(replace(a_worker("w1@h"), running=3))
    first, second = await house.fleet(stale_s=10.0)
    assert (first.name, first.running, second.name) == ("w1@h", 3, "w2@h")
    assert abs(first.beat_at - time.time()) < 60.0
    assert replace(first, beat_at=0.0) == replace(a_worker("w1@h"), running=3)


async def test_a_silent_worker_drops_out_and_a_leaving_one_at_once(house: House) -> None:
    for name in ("w1@h", "w2@h"):
        house.report(a_worker(name))
    house.retire("w2@h")
    assert [w.name for w in await house.fleet(stale_s=10.0)] == ["w1@h"]
    assert await house.fleet(stale_s=-2.0) == []


async def test_a_plan_is_read_as_it_was_published(house: House) -> None:
    assert await house.board.read() is None
    assert await house.board.publish(PLAN)
    assert await house.board.read() == PLAN


async def test_a_deposed_leader_cannot_publish(house: House) -> None:
    assert await house.board.publish(replace(PLAN, fence=7, version=3))
    assert not await house.board.publish(replace(PLAN, fence=6, version=9))
    assert not await house.board.publish(replace(PLAN, fence=7, version=3))
    assert not await house.board.publish(replace(PLAN, fence=7, version=2))
    assert await house.board.publish(replace(PLAN, fence=7, version=4))
    assert await house.board.publish(replace(PLAN, fence=8, version=1))
    plan = await house.board.read()
    assert plan is not None and (plan.fence, plan.version) == (8, 1)


async def test_a_plan_is_read_again_once_another_is_in_force(house: House) -> None:
    await house.board.publish(PLAN)
    first = await house.board.read()
    assert await house.board.read() is first
    await house.board.publish(replace(PLAN, version=2, saturation=0.5))
    again = await house.board.read()
    assert again is not None and (again.version, again.saturation) == (2, 0.5)


async def test_a_worker_reads_what_it_is_given_whoever_published_what_before(
    real: RedisHouse,
) -> None:
    """Leaders tell of what they changed, and of all where another has published meanwhile."""
    assert AssignmentReader(real.sync, "w1@h").read() is None
    random, boards = Random(0), [PlanBoard(real.client), PlanBoard(real.client)]
    names, fence = [f"w{n}@h" for n in range(5)], 1
    readers = {name: AssignmentReader(real.sync, name) for name in names}
    for version in range(40):
        if random.random() < 0.2:
            fence += 1
        given = {name: random.choice("ab") for name in names if random.random() < 0.8}
        plan = replace(PLAN, fence=fence, version=version, assignments=given)
        latents = replace(plan, takes_latents=random.random() < 0.5)
        assert await boards[fence % 2].publish(latents)
        for name in names:
            told = WorkerAssignment(
                version=version, model=given.get(name), takes_latents=latents.takes_latents
            )
            assert readers[name].read() == told == readers[name].read()
    assert not await boards[0].publish(PLAN)
    assert readers[names[0]].read() is not None


async def test_only_one_leads(house: House) -> None:
    first, second = house.leadership("a"), house.leadership("b")
    fence = await first.acquire()
    assert fence is not None and fence == first.fence
    assert await second.acquire() is None and second.fence is None
    assert await first.acquire() == fence
    assert await first.renew()


async def test_a_released_lead_is_free_at_once_under_a_greater_fence(house: House) -> None:
    first, second = house.leadership("a"), house.leadership("b")
    fence = await first.acquire()
    await first.release()
    later = await second.acquire()
    assert fence is not None and later is not None and later > fence
    assert not await first.renew()
    await first.release()
    assert await second.renew()


async def test_a_leader_that_falls_silent_is_replaced_and_learns_of_it(house: House) -> None:
    first, second = house.leadership("a", ttl_s=0.02), house.leadership("b")
    fence = await first.acquire()
    await asyncio.sleep(0.03)
    later = await second.acquire()
    assert fence is not None and later is not None and later > fence
    assert not await first.renew() and first.fence is None
    assert await first.acquire() is None


async def test_two_with_one_name_do_not_lead_together(house: House) -> None:
    assert await house.leadership("a").acquire() is not None
    assert await house.leadership("a").acquire() is None


async def test_a_lead_whose_answer_was_lost_is_its_takers(real: RedisHouse) -> None:
    taken = ("upkeep", "a", 60_000, 0, "keep")
    first, again = (call_sync(real.sync, load("lead"), *taken) for _ in range(2))
    assert first == again > 0
    assert call_sync(real.sync, load("lead"), "upkeep", "b", *taken[2:]) == 0
    assert call_sync(real.sync, load("lead"), "upkeep", "a", 60_000, first, "drop") == 0
    later = await real.leadership("a").acquire()
    assert later is not None and later > first


async def test_a_leader_of_the_past_cannot_publish_before_the_next_one_does(house: House) -> None:
    first = house.leadership("a", ttl_s=0.02, matter=PLANNERS)
    second = house.leadership("b", matter=PLANNERS)
    fence = await first.acquire()
    assert fence is not None
    assert await house.board.publish(replace(PLAN, fence=fence, version=1))
    await asyncio.sleep(0.03)
    later = await second.acquire()
    assert later is not None
    assert not await house.board.publish(replace(PLAN, fence=fence, version=2))
    assert await house.board.publish(replace(PLAN, fence=later, version=2))


@pytest.mark.parametrize("seed", range(3))
async def test_whoever_sleeps_and_wakes_when_only_the_last_elected_publishes(
    house: House, seed: int
) -> None:
    """Three schedulers do whatever they do in any order; leases run out under their feet."""
    random = Random(seed)
    leaders = [house.leadership(name, ttl_s=0.004, matter=PLANNERS) for name in "abc"]
    held: dict[int, int] = {}  #: scheduler -> the fence it believes to hold, perhaps long over
    elected, published, refused = 0, 0, 0
    for version in range(150):
        who = random.randrange(3)
        match random.choice(["lead", "publish", "publish", "sleep"]):
            case "lead":
                fence = await leaders[who].acquire()
                if fence is not None:
                    held[who], elected = fence, max(elected, fence)
            case "publish" if who in held:
                plan = replace(PLAN, fence=held[who], version=version)
                is_taken = await house.board.publish(plan)
                assert is_taken == (held[who] == elected)
                published, refused = published + is_taken, refused + (not is_taken)
            case "sleep":
                await asyncio.sleep(0.002)
    assert published > 5 and refused > 5
    plan = await house.board.read()
    assert plan is not None and plan.fence <= elected
