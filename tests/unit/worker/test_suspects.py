"""Jobs whose worker was lost are made alone, so that the next loss says which of them it was."""

import asyncio
import json
from time import monotonic, sleep

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import JobCanceled, StoreUnavailable
from core.job import Edit, JobStatus, Task
from storage.fakes import MemoryStore
from tests.unit.worker.house import BorrowingRunner, Clock, House
from worker.diffusion.runner import EditInputs

SLOTS = 4
MAX_ATTEMPTS = 3
LEASE_S = 10.0


class Death(BaseException):
    """What ends a worker in the middle of a step."""


class DeadlyRunner(BorrowingRunner):
    """Dies of a poisonous prompt, and notes who shares each step."""

    def __init__(self, model):
        super().__init__(model)
        self.steps = []

    def open(self, request, seed, brought=None):
        sample = super().open(request, seed, brought)
        sample.group = (request.prompt,) if request.prompt == "another size" else sample.group
        return sample

    def forward(self, samples):
        self.steps.append(sorted(int(sample.latent[0]) for sample in samples))
        if 66 in self.steps[-1]:
            raise Death
        return super().forward(samples)


class World:
    """A store, one worker at a time, and what kills it."""

    def __init__(self):
        self.store = MemoryStore(clock=Clock())
        self.deaths = 0
        self.seeds = {}
        self.hire()

    def hire(self):
        self.house = House(store=self.store, runner=DeadlyRunner)
        self.runner = self.house.engine._models.get("m")
        self.house.executor.start()

    def submit(self, seed, **request):
        job_id = self.house.submit(seed=seed, **request)
        self.seeds[job_id] = seed
        return job_id

    def take_all(self):
        """Take messages as Celery does: as many as there are slots, waiting or not."""
        while len(self.house.executor.unmade()) < SLOTS:
            message = self.store.pop("gen.m")
            if message is None:
                return
            self.house.take(id_in(message))

    def turn(self):
        try:
            self.take_all()
            if not self.house.engine.step():
                sleep(0.0002)  # the finisher's turn
        except Death:
            self.die()

    def die(self, is_quick=False):
        """Lose the worker; `is_quick`: another of its name takes jobs before that is noticed."""
        self.deaths += 1
        for held in self.house.executor._held.values():
            held.is_void = True
        self.house.executor.close()
        self.house.clock.now += LEASE_S / 2
        self.hire()
        if is_quick:
            self.take_all()
        self.house.clock.now += LEASE_S / 2 + 1
        asyncio.run(self.house.sweeper.reap())

    def run(self, until=lambda: False):
        limit = monotonic() + 20.0
        while not (until() or all(r.job.status.is_terminal for r in self.store.records.values())):
            assert monotonic() < limit, "some job never ends"
            self.turn()

    def statuses(self):
        return {self.seeds[i]: r.job.status for i, r in self.store.records.items()}


def id_in(message):
    return json.loads(message)["headers"]["id"]


@pytest.fixture
def world():
    world = World()
    yield world
    world.house.executor.close()


def suspected(world, *seeds, **request):
    """Queue jobs that were all in the hands of a worker that died."""
    ids = [world.submit(seed, **request) for seed in seeds]
    world.take_all()
    world.die()
    world.deaths = 0
    assert all(world.house.get(job_id).is_suspect for job_id in ids)
    return ids


def test_a_suspect_shares_no_step_with_anyone(world):
    suspected(world, 1, 2, 3, steps=4)
    world.submit(7, steps=4)
    world.submit(8, steps=4)
    world.run()
    steps = world.runner.steps
    first = [step for (step,) in steps[:12]]
    assert sorted(first) == [1] * 4 + [2] * 4 + [3] * 4, "popped next"
    assert first[::4] == first[1::4] == first[2::4] == first[3::4], "one after another"
    assert steps[12:] == [[7, 8]] * 4, "and then the others, together"


def test_a_suspect_waits_for_those_that_are_being_made_and_holds_back_those_after_it(world):
    [job_id] = suspected(world, 1, steps=3)
    world.store.pop("gen.m")  # its message is late
    world.submit(7, steps=5)
    world.submit(8, steps=2)
    world.take_all()
    world.house.engine.step()
    world.house.take(job_id)
    world.submit(9, steps=2)
    world.run()
    assert world.runner.steps == [[7, 8]] * 2 + [[7]] * 3 + [[1]] * 3 + [[9]] * 2
    assert world.store.records[job_id].alone is None


def test_a_steady_stream_of_others_does_not_keep_a_suspect_waiting(world):
    [job_id] = suspected(world, 1, steps=2)
    world.store.pop("gen.m")
    world.submit(7, steps=10)
    world.take_all()
    world.house.take(job_id)
    others = iter(range(100, 200))

    def is_made():
        world.submit(next(others), steps=10)
        return world.house.get(job_id).status is JobStatus.SUCCEEDED

    world.run(until=is_made)
    assert all(len(step) == 1 for step in world.runner.steps[:12])


def test_every_image_of_a_suspect_is_made_at_once(world):
    suspected(world, 1, n=3, steps=2)
    world.submit(7, steps=2)
    world.run()
    assert world.runner.steps == [[1, 2, 3]] * 2 + [[7]] * 2


def test_nothing_is_done_for_a_suspect_before_its_record_says_that_it_is_alone(world):
    edit = Edit(template="t/j/template.png", template_sha256="ab", mask="t/j/mask.png")
    [job_id] = suspected(world, 1, task=Task.EDIT, edit=edit)
    world.store.pop("gen.m")
    world.submit(7, steps=2)
    world.take_all()
    world.house.take(job_id)
    assert not world.house.images.asked
    world.run(until=lambda: bool(world.house.images.asked))
    record = world.store.records[job_id]
    assert record.alone == record.job.fence
    world.house.images.asked[0].set_result(EditInputs(template=None, mask=None, strength=1.0))
    world.run()


def test_a_suspect_that_is_canceled_while_it_waits_holds_nobody_back(world):
    [job_id] = suspected(world, 1, steps=2)
    world.store.pop("gen.m")
    world.submit(7, steps=100_000)
    world.take_all()
    world.house.take(job_id)
    world.submit(8, steps=50)
    world.take_all()
    asyncio.run(world.house.jobs.cancel(job_id))
    world.house.executor.check(job_id)
    world.run(until=lambda: [7, 8] in world.runner.steps)
    assert [1] not in world.runner.steps
    assert isinstance(world.house.endings[job_id].error, JobCanceled)


def test_a_suspect_that_is_revoked_while_it_waits_is_ended(world):
    [job_id] = suspected(world, 1, steps=2)
    world.store.pop("gen.m")
    world.submit(7, steps=2)
    world.take_all()
    world.house.take(job_id)
    world.house.executor.stop(job_id, JobCanceled("revoked by an operator"))
    world.run()
    assert world.statuses() == {1: JobStatus.CANCELED, 7: JobStatus.SUCCEEDED}
    assert all(step == [7] for step in world.runner.steps)


def test_a_suspect_whose_record_cannot_be_reached_is_left_to_its_lease(world):
    [job_id] = suspected(world, 1, steps=2)
    isolate = world.house.leases.isolate

    def away(*args):
        world.house.leases.isolate = isolate
        raise StoreUnavailable("away")

    world.house.leases.isolate = away
    world.submit(7, steps=2)
    world.run(until=lambda: world.statuses()[7] is JobStatus.SUCCEEDED)
    assert world.runner.steps == [[7]] * 2
    world.house.clock.now += LEASE_S + 1
    asyncio.run(world.house.sweeper.reap())
    world.run()
    assert world.house.get(job_id).status is JobStatus.SUCCEEDED


def test_suspects_that_wait_are_handed_back_by_a_worker_that_stops(world):
    ids = suspected(world, 1, 2, 3, steps=50)
    world.take_all()
    world.house.engine.step()
    assert world.house.executor.hand_over.let_go() == 3
    for job_id in ids:
        job = world.house.get(job_id)
        assert (job.status, job.attempts, job.is_suspect) == (JobStatus.QUEUED, 0, True)


def test_suspects_that_wait_go_back_if_their_model_leaves_meanwhile(world):
    ids = suspected(world, 1, 2, 3, steps=5)
    world.take_all()
    world.house.engine.step()
    world.house.engine.detach("m")
    limit = monotonic() + 20.0
    while world.house.executor.fences():
        assert monotonic() < limit, "some job never ends"
        if not world.house.engine.step():
            sleep(0.0002)
    jobs = [world.house.get(job_id) for job_id in ids]
    waiting = [job for job in jobs if job.status is not JobStatus.SUCCEEDED]
    assert len(waiting) == 2, "one was being made"
    for job in waiting:
        assert (job.status, job.attempts, job.is_suspect) == (JobStatus.QUEUED, 0, True)


def test_a_job_that_is_being_stored_keeps_no_suspect_waiting(world):
    [job_id] = suspected(world, 1, steps=2)
    world.store.pop("gen.m")
    world.house.images.is_slow = True
    first = world.submit(7, steps=2)
    world.take_all()
    world.house.take(job_id)
    world.run(until=lambda: [1] in world.runner.steps)
    assert world.house.get(first).status is JobStatus.RUNNING
    world.run(until=lambda: len(world.house.images.held) == 2)
    for store in world.house.images.held:
        store()
    world.run()


def test_sixteen_jobs_one_of_them_poisonous(world):
    for number in range(16):
        world.submit(66 if number == 5 else number)
    world.run()
    statuses = world.statuses()
    assert statuses.pop(66) is JobStatus.FAILED
    assert set(statuses.values()) == {JobStatus.SUCCEEDED}
    assert world.deaths == 1 + MAX_ATTEMPTS


@settings(max_examples=25, deadline=None)
@given(
    poisonous=st.lists(st.booleans(), min_size=1, max_size=10),
    kills=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=MAX_ATTEMPTS - 1),
)
def test_with_any_poisonous_jobs_every_innocent_succeeds_and_every_poison_is_buried(
    poisonous, kills
):
    """Also if an operator kills the worker now and then."""
    world = World()
    for number, is_poison in enumerate(poisonous):
        world.seeds[world.house.submit(seed=66 if is_poison else number, steps=3)] = number
    for turns, is_quick in kills:
        left = iter(range(turns))
        world.run(until=lambda left=left: next(left, None) is None)
        world.die(is_quick)
    world.run()
    world.house.executor.close()
    for number, status in world.statuses().items():
        expected = JobStatus.FAILED if poisonous[number] else JobStatus.SUCCEEDED
        assert status is expected, number
    assert world.deaths <= len(kills) + sum(poisonous) * (MAX_ATTEMPTS + 1) + len(kills)
    stats = world.store.stats
    assert stats["jobs_dead"] == sum(poisonous)
    assert stats["finished"] == len(poisonous)


def test_a_job_that_cannot_even_begin_fails_and_the_next_begins(world):
    [job_id] = suspected(world, 1, steps=2)
    world.submit(7, steps=2)
    get = world.house.images.get

    def broken(job):
        if job.id == job_id:
            raise ValueError("a bug")
        return get(job)

    world.house.images.get = broken
    world.run()
    assert world.statuses() == {1: JobStatus.FAILED, 7: JobStatus.SUCCEEDED}
