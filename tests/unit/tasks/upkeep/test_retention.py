import pytest

from core.errors import ObjectMissing, ObjectsUnavailable
from storage.fakes import MemoryObjects
from storage.jobs.sweeps import BATCH, ROUNDS, Old
from tasks.upkeep.retention import Retention


class Sweeper:
    """One old job."""

    def __init__(self, *keys):
        self.old = [Old(id="j", keys=keys)]

    async def find_old(self, retention_s):
        return list(self.old)

    async def forget(self, ids):
        self.old = [job for job in self.old if job.id not in ids]
        return len(ids)


class Flaky(MemoryObjects):
    is_away = False

    def delete(self, keys):
        if self.is_away:
            raise ObjectsUnavailable("away")
        super().delete(keys)


async def test_a_job_is_not_forgotten_before_its_images_are_deleted():
    objects = Flaky()
    objects.put("t/j/1/0.png", b"x", "image/png")
    sweeper = Sweeper("t/j/1/0.png")
    objects.is_away = True
    with pytest.raises(ObjectsUnavailable):
        await Retention(sweeper, objects).retain(60.0)
    assert sweeper.old
    objects.is_away = False
    await Retention(sweeper, objects).retain(60.0)
    assert not sweeper.old
    with pytest.raises(ObjectMissing):
        objects.get("t/j/1/0.png")


class Crowd:
    """Upkeep of a tenant with so many jobs that wait, accepted before one that ended long ago."""

    def __init__(self, waiting):
        self.waiting, self.forgotten = waiting, []

    async def find_old_of(self, tenant, retention_s, skip):
        looked = min(BATCH, max(0, self.waiting + 1 - len(self.forgotten) - skip))
        reaches_the_end = looked and skip + looked > self.waiting
        return looked, [Old(id="ended", keys=[])] if reaches_the_end else []

    async def forget(self, ids):
        self.forgotten += ids


async def test_what_waits_hides_nothing_that_ended_behind_it():
    crowd = Crowd(waiting=BATCH * ROUNDS + 7)
    retention = Retention(crowd, MemoryObjects())
    for _ in range(2):
        await retention.retain_own({"acme": 60.0})
    assert crowd.forgotten == ["ended"]
    crowd.forgotten.clear()
    for _ in range(2):
        await retention.retain_own({"acme": 60.0})
    assert crowd.forgotten == ["ended"], "it begins anew once it has seen all"
