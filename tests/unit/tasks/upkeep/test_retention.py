import pytest

from core.errors import ObjectMissing, ObjectsUnavailable
from storage.fakes import MemoryObjects
from storage.jobs.sweeps import Old
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
