"""Report a large fleet to a store, each worker once a second. None of them makes a job."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import redis

from core.boards.fleet import Worker
from core.boards.image_work import ImageWork
from core.codec import encode
from core.placement import own_queue_of, queue_of
from storage.redis.connect import connect_sync
from storage.redis.script import load

BEAT_S = 1.0
PARTS = 20  #: of a second, in which some of them report
PIXELS = 1024**2
TEMPLATES = 100


def a_work(rng: Random, job: str, model: str, *, steps: int = 50) -> ImageWork:
    """Describe an image of an edit."""
    return ImageWork(
        job=job,
        model=model,
        steps=steps,
        rows=2,
        pixels=PIXELS,
        masked=rng.uniform(0.02, 0.4),
        recording=f"t{rng.randrange(TEMPLATES)}",
    )


def a_worker(number: int, model: str) -> Worker:
    """Describe one that has nothing to do."""
    queue, name = queue_of(model), f"w{number:05}@host{number // 8:04}"
    return Worker(
        name=name,
        device_type="gpu",
        models=(model,),
        queues=(queue, own_queue_of(queue, name)),
        memory_gib=24.0,
        catalogue=("base", "small", "tiny"),
        slowness=1.0,
    )


def busy(worker: Worker, rng: Random, jobs: int = 8) -> Worker:
    """Give it edits to make, and templates to make them from."""
    model = worker.models[0]
    return replace(
        worker,
        running=jobs,
        works=tuple(
            a_work(rng, f"{worker.name}.{i}", model, steps=rng.randint(1, 50)) for i in range(jobs)
        ),
        recordings=tuple(f"t{rng.randrange(TEMPLATES)}" for _ in range(10)),
        shelved=tuple(f"t{rng.randrange(TEMPLATES)}" for _ in range(40)),
    )


class ReportingFleet:
    """Reports in bulk what as many processes would, each by one call of a script."""

    def __init__(self, url: str, workers: list[Worker]) -> None:
        """Report everybody once."""
        self._client = connect_sync(url)
        self._client.script_load(load("report").source)
        self._workers = workers
        self._numbers = [0] * len(workers)
        self.sent = 0  #: reports so far
        self._documents = [encode(worker) for worker in workers]
        self._send(range(len(workers)), is_news=True)

    def beat(self, part: int, *, is_news: bool) -> None:
        """Have a part of them report; what they say is as before, or new."""
        self._send(range(part, len(self._workers), PARTS), is_news=is_news)

    def close(self) -> None:
        """Leave the store."""
        self._client.close()

    def _send(self, who: range, *, is_news: bool) -> None:
        with self._client.pipeline(transaction=False) as pipe:
            for i in who:
                document = self._documents[i] if is_news else b""
                _report(pipe, self._workers[i].name, self._numbers[i], document)
            for i, number in zip(who, pipe.execute(), strict=True):
                self._numbers[i] = number
        self.sent += len(who)


def _report(pipe: "redis.client.Pipeline", name: str, number: int, document: bytes) -> None:
    pipe.evalsha(load("report").sha, 0, name, number, document)


@contextmanager
def reporting_fleet(
    url: str, workers: list[Worker], *, is_news: bool = False
) -> Iterator[ReportingFleet]:
    """Have workers report once a second; with `is_news` each time in full."""
    fleet, is_over = ReportingFleet(url, workers), threading.Event()

    def run() -> None:
        part, due = 0, time.monotonic()
        while not is_over.wait(max(0.0, due - time.monotonic())):
            fleet.beat(part % PARTS, is_news=is_news)
            part, due = part + 1, due + BEAT_S / PARTS

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield fleet
    finally:
        is_over.set()
        thread.join()
        fleet.close()
