import asyncio

import pytest

from core.errors import ObjectMissing, ObjectsUnavailable, StoreUnavailable
from storage.memory import MemoryLeadership, MemoryObjects, MemoryStore
from storage.outbox import Delivery
from tasks.upkeep import Chore, Housekeeper, Keeper


class Counted:
    def __init__(self, error=None):
        self.count, self.error = 0, error

    async def __call__(self):
        self.count += 1
        if self.error:
            raise self.error


def housekeeper(store, owner, *acts):
    chores = [Chore(name=f"c{i}", every_s=1.0, run=act) for i, act in enumerate(acts)]
    return Housekeeper(MemoryLeadership(store, "upkeep", owner, 60.0), chores)


async def test_only_the_leader_works():
    store, first, second = MemoryStore(), Counted(), Counted()
    await housekeeper(store, "a", first).turn(now=0.0)
    await housekeeper(store, "b", second).turn(now=0.0)
    assert (first.count, second.count) == (1, 0)


async def test_a_chore_is_done_when_it_is_due_and_not_before():
    act = Counted()
    keeper = housekeeper(MemoryStore(), "a", act)
    for now in (0.0, 0.5, 1.0, 1.5, 2.1):
        await keeper.turn(now)
    assert act.count == 3


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("a bug")])
async def test_a_chore_that_fails_does_not_keep_the_next_from_being_done(error):
    bad, good = Counted(error), Counted()
    await housekeeper(MemoryStore(), "a", bad, good).turn(now=0.0)
    assert (bad.count, good.count) == (1, 1)


async def test_whoever_stops_lets_somebody_else_lead_at_once():
    store, act = MemoryStore(), Counted()
    leaving = housekeeper(store, "a", Counted())
    running = asyncio.create_task(leaving.run())
    await asyncio.sleep(0.01)
    leaving.stop()
    await running
    await housekeeper(store, "b", act).turn(now=0.0)
    assert act.count == 1


class Due:
    def __init__(self, *deliveries):
        self.deliveries = list(deliveries)

    async def due(self, now=None, limit=100):
        taken, self.deliveries = self.deliveries, []
        return taken


class Forgotten:
    def __init__(self, *keys):
        self.keys = list(keys)

    async def retain(self, retention_s):
        taken, self.keys = self.keys, []
        return taken


class Flaky(MemoryObjects):
    is_away = False

    def delete(self, keys):
        if self.is_away:
            raise ObjectsUnavailable("away")
        super().delete(keys)


def a_keeper(*, sweeper=None, outbox=None, objects=None, send=None):
    return Keeper(sweeper=sweeper, outbox=outbox, objects=objects, send=send)


async def test_every_due_webhook_is_sent_on_its_way():
    delivery = Delivery(id="d", job_id="j", url="", event="completed", attempt=1, body="{}")
    sent = []
    await a_keeper(outbox=Due(delivery), send=sent.append).post()
    assert sent == [delivery]


async def test_images_of_forgotten_jobs_are_deleted_as_soon_as_their_store_is_back():
    objects = Flaky()
    objects.put("t/j/1/0.png", b"x", "image/png")
    keeper = a_keeper(sweeper=Forgotten("t/j/1/0.png"), objects=objects)
    objects.is_away = True
    with pytest.raises(ObjectsUnavailable):
        await keeper.retain(60.0)
    objects.is_away = False
    await keeper.retain(60.0)
    with pytest.raises(ObjectMissing):
        objects.get("t/j/1/0.png")
