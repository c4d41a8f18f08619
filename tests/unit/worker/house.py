"""A worker without Celery, processes or sockets: real executor and engine, fakes at the edges."""

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from time import monotonic, sleep

from core.errors import ObjectsUnavailable
from core.job import StoredImage
from core.latents import Start
from core.levels.approximation import skipping
from core.levels.schedule import scaled
from core.model import Model
from storage.fakes import MemoryJobs, MemoryLeases, MemoryStore, MemorySweeper
from tests.rig import new_job
from worker.cpu.inputs import may_borrow
from worker.diffusion.runner import Borrowed
from worker.engine.engine import Engine
from worker.families.noop import NoopRunner
from worker.jobs.executor import JobExecutor


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Images:
    """Stores at once, or when told to; notes what was deleted."""

    def __init__(self):
        self.keys, self.deleted, self.held = [], [], []
        self.is_away = self.is_slow = False
        self.error = ObjectsUnavailable("the disk is full")  #: of a store that is away
        self.room = 0  #: images of each job that it takes all the same
        self.asked = []  #: inputs that somebody waits for

    def get(self, job):
        if job.request.edit is None and not may_borrow(job):
            return None
        answer = Future()
        self.asked.append(answer)
        return answer

    def put(self, prefix, made, output):
        answer = Future()
        if self.is_slow:
            self.held.append(lambda: self._store(answer, prefix, made))
        else:
            self._store(answer, prefix, made)
        return answer

    def _store(self, answer, prefix, made):
        stored = tuple(
            StoredImage(key=f"{prefix}/{i}.png", width=64, height=64, seed=seed, sha256="ab")
            for i, seed in enumerate(made.seeds)
        )
        if self.is_away:
            self.keys += [image.key for image in stored[: self.room]]
            answer.set_exception(self.error)
            return
        self.keys += [image.key for image in stored]
        answer.set_result(stored)

    def delete(self, keys):
        self.deleted += keys


class States:
    """Notes what it is told; what it is asked to wait for is written at once, or never."""

    def __init__(self, in_time=True):
        self.in_time, self.told = in_time, []
        self.before = lambda: None

    def settle(self, job_ids, within_s):
        self.before()
        self.told.append(("settle", *sorted(job_ids)))
        return self.in_time

    def end(self, job_id):
        self.told.append(("end", job_id))

    def lose(self, job_id):
        self.told.append(("lose", job_id))


class BorrowingRunner(NoopRunner):
    """Goes on from whatever is borrowed, unless that is nothing."""

    def open(self, request, seed, brought=None):
        sample = super().open(request, seed, brought)
        if isinstance(brought, Borrowed) and brought.data:
            sample.reached = skipping(brought.skipped_steps)
            sample.num_steps -= scaled(brought.skipped_steps, request.steps)
        return sample


class House:
    """Step the engine by hand with `run`; the executor's finisher is stepped by `finish`."""

    def __init__(self, worker="w1", store=None, runner=BorrowingRunner, **of):
        self.store = store or MemoryStore(clock=Clock())
        self.clock = self.store.clock
        self.jobs = MemoryJobs(self.store)
        self.leases = MemoryLeases(self.store, worker=worker, lease_s=10.0)
        self.sweeper = MemorySweeper(self.store, max_attempts=3)
        self.engine = Engine(max_slots=4, max_rows=8, slo_s=60.0)
        self.engine.attach(runner(Model(name="m", family="noop")))
        self.images, self.deaths, self.endings, self.seconds = Images(), [], {}, []
        self.lent = []  #: what delivered jobs have left behind
        self.executor = JobExecutor(
            leases=self.leases,
            engine=self.engine,
            images=self.images,
            die=lambda: self.deaths.append(1),
            observe=lambda job, total_s: self.seconds.append(total_s),
            lend=lambda job, made: self.lent.append((job, made)),
            **of,
        )

    def submit(self, *, skip=0, **request):
        """Queue a job, one that was placed to skip K of 50 steps if `skip` says so."""
        job = new_job(model="m", **request)
        if skip:
            start = Start(key="latents/t/other.safetensors", similarity=0.9)
            placement = replace(job.placement, level=f"m@{skip}", skipped_steps=skip, start=start)
            job = replace(job, placement=placement)
        asyncio.run(self.jobs.submit([job]))
        return job.id

    def get(self, job_id):
        return asyncio.run(self.jobs.get(job_id))

    def take(self, job_id):
        endings = self.endings
        return self.executor.take(job_id, lambda ending: endings.__setitem__(job_id, ending))

    def run(self):
        while self.engine.step():
            pass

    def finish(self):
        self.executor.start()
        self.executor.close()

    def settle(self):
        """See all that is held to its end, whoever waits for whom."""
        self.executor.start()
        until = monotonic() + 10.0
        while self.executor.fences():
            assert monotonic() < until, "some job never ends"
            if not self.engine.step():
                sleep(0.0005)  # the finisher's turn
        self.executor.close()
