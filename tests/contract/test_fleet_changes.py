"""What changed in the fleet since somebody looked last."""

from dataclasses import replace
from random import Random

import pytest

from core.boards.fleet import FleetChange, Worker
from core.boards.image_work import ImageWork
from core.codec import encode
from core.errors import StoreUnavailable
from storage.boards.fleet import Reporter
from storage.boards.fleet_changes import PAGE, FleetReader
from tests.contract.house import House, RedisHouse

WORK = ImageWork(job="j", model="m", steps=5, rows=2, pixels=64)


def a_worker(name: str, **changes: object) -> Worker:
    worker = Worker(name=name, device_type="cpu", models=("m",), queues=("gen.m",), memory_gib=4.0)
    return replace(worker, **changes)  # type: ignore[arg-type]


def told(change: FleetChange) -> tuple[list[str], list[str]]:
    return sorted(worker.name for worker in change.workers), sorted(change.gone)


async def test_the_first_look_tells_of_everybody_and_the_next_of_what_is_new(house: House) -> None:
    for name in ("w1@h", "w2@h"):
        house.report(a_worker(name))
    reader = house.fleet_reader()
    assert told(await reader.look()) == (["w1@h", "w2@h"], [])
    house.report(a_worker("w2@h", running=3))
    change = await reader.look()
    assert [(worker.name, worker.running) for worker in change.workers] == [("w2@h", 3)]
    assert (await reader.look()).is_empty


async def test_who_leaves_or_falls_silent_is_gone_once_and_may_come_back(house: House) -> None:
    for name in ("w1@h", "w2@h", "w3@h"):
        house.report(a_worker(name))
    reader = house.fleet_reader(stale_s=10.0)
    await reader.look()
    house.retire("w1@h")
    house.fall_silent("w2@h", 11.0)
    assert told(await reader.look()) == ([], ["w1@h", "w2@h"])
    assert (await reader.look()).is_empty
    for name in ("w1@h", "w2@h"):
        house.report(a_worker(name))
    assert told(await reader.look()) == (["w1@h", "w2@h"], [])
    assert told(await house.fleet_reader().look()) == (["w1@h", "w2@h", "w3@h"], [])


async def test_while_a_worker_makes_something_every_report_is_news(house: House) -> None:
    reader = house.fleet_reader()
    for ago_s in (1.0, 0.5):
        house.report(a_worker("w1@h", works=(WORK,)))
        house.fall_silent("w1@h", ago_s)
        assert told(await reader.look()) == (["w1@h"], [])


async def test_changes_add_up_to_the_fleet(house: House) -> None:
    random, known = Random(0), dict[str, Worker]()
    reader, names = house.fleet_reader(), [f"w{n}@h" for n in range(8)]
    there: set[str] = set()
    for _ in range(60):
        name = random.choice(names)
        match random.choice(["report", "report", "retire", "silence", "look"]):
            case "report":
                house.report(a_worker(name, running=random.randrange(3)))
                there.add(name)
            case "retire":
                house.retire(name)
                there.discard(name)
            case "silence" if name in there:
                house.fall_silent(name, 11.0)
                there.discard(name)
            case "look":
                change = await reader.look()
                known = {n: w for n, w in known.items() if n not in change.gone}
                known |= {worker.name: worker for worker in change.workers}
                assert set(known) == there
                fleet = {worker.name: worker.running for worker in await house.fleet(10.0)}
                assert {name: worker.running for name, worker in known.items()} == fleet


async def test_a_worker_says_once_what_does_not_change(real: RedisHouse) -> None:
    reporter, reader = Reporter(real.sync), real.fleet_reader()
    reporter.report(a_worker("w1@h"))
    await reader.look()
    before = real.sync.zscore("fleet:changes", "w1@h")
    real.fall_silent("w1@h", 1.0)
    beat = real.sync.zscore("fleet:beats", "w1@h")
    reporter.report(a_worker("w1@h"))
    assert real.sync.zscore("fleet:beats", "w1@h") > beat
    assert real.sync.zscore("fleet:changes", "w1@h") == before
    assert (await reader.look()).is_empty
    reporter.report(a_worker("w1@h", running=1))
    assert told(await reader.look()) == (["w1@h"], [])


@pytest.mark.parametrize("lost", [("fleet*",), ("fleet:changes", "fleet:number")])
async def test_a_store_that_lost_its_count_is_told_and_read_anew(
    real: RedisHouse, lost: tuple[str, ...]
) -> None:
    reporters = {name: Reporter(real.sync) for name in ("w1@h", "w2@h")}
    reader = real.fleet_reader()
    for name, reporter in reporters.items():
        for running in range(4):
            reporter.report(a_worker(name, running=running))
    await reader.look()
    real.lose(*lost)
    reporters["w1@h"].report(a_worker("w1@h", running=3))
    assert told(await reader.look()) == ([], ["w2@h"])
    reporters["w2@h"].report(a_worker("w2@h", running=3))
    assert told(await reader.look()) == (["w2@h"], [])


async def test_a_count_that_went_back_is_read_anew(real: RedisHouse) -> None:
    reader = real.fleet_reader()
    for running in range(4):
        real.report(a_worker("w1@h", running=running))
    await reader.look()
    real.sync.hset("fleet:number", "last", "1")  # a replica that had not heard of the others
    real.report(a_worker("w2@h"))
    assert told(await reader.look()) == (["w2@h"], [])


async def test_all_is_read_again_from_time_to_time_and_nothing_new_is_no_news(
    real: RedisHouse,
) -> None:
    now = [0.0]
    reader = FleetReader(real.client, stale_s=10.0, clock=lambda: now[0])
    for name in ("w1@h", "w2@h"):
        real.report(a_worker(name, works=(WORK,)))
    await reader.look()
    real.sync.hset("fleet", "w2@h", encode(a_worker("w2@h", running=1)))
    assert (await reader.look()).is_empty, "nobody numbered that"
    now[0] = 61.0
    assert told(await reader.look()) == (["w2@h"], [])


async def test_a_large_fleet_is_read_page_by_page(real: RedisHouse) -> None:
    names = [f"w{number}@h" for number in range(2 * PAGE)]
    for name in names:
        real.report(a_worker(name))
    reader = real.fleet_reader(stale_s=600.0)  # a slow machine takes long for so many
    assert told(await reader.look()) == (sorted(names), [])
    for name in names:
        real.retire(name)
    assert told(await reader.look()) == ([], sorted(names))


async def test_what_was_read_before_the_store_went_away_is_told_with_the_next_look(
    real: RedisHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(PAGE):
        real.report(a_worker(f"w{number}@h"))
    reader = FleetReader(real.client, stale_s=10.0)
    asked, execute = [0], real.client.execute_command

    async def failing(*words: object) -> object:
        asked[0] += 1
        if asked[0] > 1 and words[0] == "EVALSHA":
            raise StoreUnavailable("away")
        return await execute(*words)

    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        patch.setattr(real.client, "execute_command", failing)
        await reader.look()
    assert len((await reader.look()).workers) == PAGE
