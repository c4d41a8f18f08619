"""Pictures of jobs that never came go, whatever cannot be deleted."""

import pytest

from core.errors import ObjectsUnavailable
from storage.fakes import MemoryExpectedJobs, MemoryJobs, MemoryObjects, MemoryStore
from storage.jobs.submit import LOOK
from tasks.upkeep.orphaned_inputs import GRACE_S, OrphanedInputs
from tests.contract.house import new_job


class Objects(MemoryObjects):
    """Some of them cannot be deleted."""

    def __init__(self):
        super().__init__()
        self.stuck = set()

    def delete(self, keys):
        keys = list(keys)
        if self.stuck & set(keys):
            raise ObjectsUnavailable("away")
        super().delete(keys)


class Service:
    """A store, its objects and what sweeps them, ten minutes after everything was noted."""

    def __init__(self):
        self.now = 1000.0
        self.store, self.objects = MemoryStore(clock=lambda: self.now), Objects()
        self.jobs = MemoryJobs(self.store)
        self.inputs = OrphanedInputs(MemoryExpectedJobs(self.store), self.objects)

    async def note(self, *names, has_come=False):
        for name in names:
            await self.jobs.expect(name, [name])
            self.objects.put(name, b"x", "image/png")
        if has_come:
            await self.jobs.submit([new_job(name) for name in names])
        self.now += GRACE_S

    async def sweep(self):
        with pytest.raises(ObjectsUnavailable):
            await self.inputs.sweep()

    @property
    def noted(self):
        return {job_id for _, job_id, _ in self.store.expected.values()}


async def test_all_that_was_noted_is_looked_at():
    service = Service()
    await service.note(*(f"lost{n}" for n in range(LOOK + 1)))
    await service.note("came", has_come=True)
    await service.inputs.sweep()
    assert set(service.objects.objects) == {"came"} and not service.noted


async def test_while_the_object_store_is_away_notes_of_jobs_that_came_go():
    service = Service()
    lost = [f"lost{n}" for n in range(2 * LOOK)]
    await service.note(*lost)
    await service.note("came", has_come=True)
    service.objects.stuck = set(lost)
    await service.sweep()
    assert service.noted == set(lost)
    service.objects.stuck = set()
    await service.inputs.sweep()
    assert set(service.objects.objects) == {"came"} and not service.noted


async def test_what_cannot_be_deleted_holds_up_none_behind_it():
    service = Service()
    await service.note("a", "stuck", "b", "stuck too", "c")
    service.objects.stuck = {"stuck", "stuck too"}
    for left in (
        {"stuck", "b", "stuck too", "c"},
        {"stuck", "stuck too", "c"},
        {"stuck", "stuck too"},
    ):
        await service.sweep()
        assert service.noted == left
    await service.note("d")
    for _ in range(2):
        await service.sweep()
    assert service.noted == {"stuck", "stuck too"}
