"""A worker without Celery, processes or sockets: real maker and engine, twins at the edges."""

import asyncio
from concurrent.futures import Future

from core.errors import ObjectsUnavailable
from core.job import StoredImage
from core.variant import Model
from storage.memory import MemoryJobs, MemoryLeases, MemoryStore, MemorySweeper
from tests.rig import new_job
from worker.engine import Engine
from worker.families.noop import NoopRunner
from worker.maker import Maker


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Images:
    """Stores at once, or when told to; notes what was deleted."""

    def __init__(self):
        self.keys, self.deleted, self.held = [], [], []
        self.is_away = self.is_slow = False
        self.asked = []  #: inputs that somebody waits for

    def get(self, edit):
        answer = Future()
        self.asked.append(answer)
        return answer

    def put(self, prefix, made):
        answer = Future()
        if self.is_slow:
            self.held.append(lambda: self._store(answer, prefix, made))
        else:
            self._store(answer, prefix, made)
        return answer

    def _store(self, answer, prefix, made):
        if self.is_away:
            answer.set_exception(ObjectsUnavailable("the disk is full"))
            return
        stored = tuple(
            StoredImage(key=f"{prefix}/{i}.png", width=64, height=64, seed=seed, sha256="ab")
            for i, seed in enumerate(made.seeds)
        )
        self.keys += [image.key for image in stored]
        answer.set_result(stored)

    def delete(self, keys):
        self.deleted += keys


class House:
    """Step the engine by hand with `run`; the maker's finisher is stepped by `finish`."""

    def __init__(self, worker="w1"):
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock)
        self.jobs = MemoryJobs(self.store)
        self.leases = MemoryLeases(self.store, worker=worker, lease_s=10.0)
        self.sweeper = MemorySweeper(self.store, max_attempts=3)
        self.engine = Engine(max_slots=4, max_rows=8, slo_s=60.0)
        self.engine.attach(NoopRunner(Model(name="m", family="noop")))
        self.images, self.deaths, self.endings, self.seconds = Images(), [], {}, []
        self.maker = Maker(
            leases=self.leases,
            engine=self.engine,
            images=self.images,
            die=lambda: self.deaths.append(1),
            observe=lambda job, total_s: self.seconds.append(total_s),
        )

    def submit(self, **request):
        job = new_job(model="m", **request)
        asyncio.run(self.jobs.submit([job]))
        return job.id

    def get(self, job_id):
        return asyncio.run(self.jobs.get(job_id))

    def take(self, job_id):
        endings = self.endings
        return self.maker.take(job_id, lambda ending: endings.__setitem__(job_id, ending))

    def run(self):
        while self.engine.step():
            pass

    def finish(self):
        self.maker.start()
        self.maker.close()
