import asyncio

import pytest

from core.errors import ObjectMissing, ObjectsUnavailable, StoreUnavailable
from storage.fakes import MemoryLeadership, MemoryObjects, MemoryStore
from storage.jobs.outbox import Delivery
from storage.jobs.sweeps import Old, Reaped
from tasks.upkeep.main import GRACE_S, MAX_POSTING, Chore, Housekeeper, Keeper


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


class Sweeper:
    """One old job, and a number of leases that have run out."""

    def __init__(self, *keys, late=0):
        self.old, self.late = [Old(id="j", keys=keys)], late

    async def find_old(self, retention_s):
        return list(self.old)

    async def forget(self, ids):
        self.old = [job for job in self.old if job.id not in ids]
        return len(ids)

    async def reap(self):
        back, self.late = ("j",) * self.late, 0
        return Reaped(back=back, ended=())


class Flaky(MemoryObjects):
    is_away = False

    def delete(self, keys):
        if self.is_away:
            raise ObjectsUnavailable("away")
        super().delete(keys)


async def nothing_posting():
    return 0


def a_keeper(**parts):
    nothing = dict.fromkeys(("sweeper", "outbox", "objects", "send"))
    return Keeper(**{**nothing, "posting": nothing_posting, **parts})


async def test_every_due_webhook_is_sent_on_its_way():
    delivery = Delivery(id="d", job_id="j", url="", event="completed", attempt=1, body="{}")
    sent = []
    await a_keeper(outbox=Due(delivery), send=sent.append).post()
    assert sent == [delivery]


async def test_a_job_is_not_forgotten_before_its_images_are_deleted():
    objects = Flaky()
    objects.put("t/j/1/0.png", b"x", "image/png")
    sweeper = Sweeper("t/j/1/0.png")
    keeper = a_keeper(sweeper=sweeper, objects=objects)
    objects.is_away = True
    with pytest.raises(ObjectsUnavailable):
        await keeper.retain(60.0)
    assert sweeper.old
    objects.is_away = False
    await a_keeper(sweeper=sweeper, objects=objects).retain(60.0)
    assert not sweeper.old
    with pytest.raises(ObjectMissing):
        objects.get("t/j/1/0.png")


async def test_after_an_outage_workers_may_beat_before_their_jobs_are_taken():
    now, sweeper = [100.0], Sweeper(late=1)
    keeper = a_keeper(sweeper=sweeper, clock=lambda: now[0])
    await keeper.reap()
    assert sweeper.late, "a leader who has just come does not know what happened before"
    for _ in range(4):
        now[0] += 1.0
        await keeper.reap()
    assert not sweeper.late
    sweeper.late = 1
    now[0] += 20.0
    await keeper.reap()
    assert sweeper.late, "for twenty seconds no lease could be renewed"
    now[0] += GRACE_S
    await keeper.reap()
    assert not sweeper.late


async def test_no_more_webhooks_are_handed_out_than_workers_have_room_for():
    delivery = Delivery(id="d", job_id="j", url="", event="completed", attempt=1, body="{}")
    sent, waiting = [], [MAX_POSTING]

    async def posting():
        return waiting[0]

    keeper = a_keeper(outbox=Due(delivery), send=sent.append, posting=posting)
    await keeper.post()
    assert not sent, "nobody takes them: the queue would only grow"
    waiting[0] = 0
    await keeper.post()
    assert sent == [delivery]
