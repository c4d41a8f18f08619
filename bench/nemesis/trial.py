"""One kind of fault under load: clients ask, the fault is done, all is waited for and checked."""

import asyncio
import hashlib
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import httpx

from bench.nemesis.checker import Ended, Violation, check
from bench.nemesis.client import Client
from bench.nemesis.history import PICTURES, History, Verb
from bench.nemesis.kind import Kind, Scene
from bench.nemesis.service import LEASE_S, Service
from core.errors import NotFound
from core.job import Job
from storage.jobs.integrity import check_integrity
from storage.jobs.jobs import JobStore

#: Seconds of load before a fault, between two jobs at most, and until everything must have ended.
BEFORE_S, PAUSE_S, PATIENCE_S = 1.0, 0.12, 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one trial found."""

    kind: Kind
    seed: int
    accepted: int
    violations: Sequence[Violation]
    stated: int  #: violations that docs tell of
    recovery_s: float  #: see `_recovery`
    seconds: float


async def learn(service: Service) -> None:
    """Have each picture made while nothing disturbs it."""
    client = Client(service.url, service.receiver.url)
    for picture in PICTURES:
        job_id = await client.submit(picture)
        await _settle(service, [job_id])
        service.expected[picture] = _digest(await client.image(job_id))
    await client.close()


async def run(service: Service, kind: Kind, seed: int) -> Result:
    """Do one kind of fault once."""
    began, before = time.monotonic(), await _ids(service)
    client, violations = Client(service.url, service.receiver.url), list[Violation]()
    scene = Scene(service=service, client=client, draw=Random(f"{kind.name} {seed}"))
    service.jobs = []
    service.exits.clear()
    try:
        await _disturb(scene, kind, Random(seed))
        await _settle(service, service.jobs)
        await asyncio.sleep(LEASE_S * 1.5)  # whatever a zombie still wants to write, it has
        await service.until_ready()
        await _until_told(service)
    except TimeoutError as error:
        violations.append(Violation(what="stuck", job="the service", detail=str(error)[-2000:]))
    jobs = await _jobs(service, await _ids(service) - before)
    records = {job.id: await _ended(service, client, job) for job in jobs}
    violations += check(client.history, records, service.expected)
    violations += [
        Violation(what="exit", job=name, detail=f"{times} times")
        for name, times in service.exits.items()
    ]
    violations += await _contradictions(service, kind.recovers_s)
    await client.close()
    return Result(
        kind=kind,
        seed=seed,
        accepted=len(client.history.accepted),
        violations=[each for each in violations if each.what not in kind.may],
        stated=sum(each.what in kind.may for each in violations),
        recovery_s=_recovery(client.history, jobs, scene.over_at),
        seconds=time.monotonic() - began,
    )


async def _disturb(scene: Scene, kind: Kind, draw: Random) -> None:
    """Do the fault under load."""
    over = asyncio.Event()
    load = asyncio.gather(
        _feed(scene.service, scene.client, draw, over),
        _look(scene.service, scene.client, draw, over),
    )
    try:
        await asyncio.sleep(BEFORE_S)
        await kind.do(scene)
    finally:
        scene.over_at = scene.over_at or time.monotonic()
        over.set()
        await asyncio.wait_for(load, PATIENCE_S)


def _recovery(history: History, jobs: Sequence[Job], over_at: float) -> float:
    """Say how long after the fault the last of those jobs ended: by the store's clock.

    Those are all that were accepted by then, and the first of those that were asked for later.
    """
    asked = sorted(history.of(Verb.SUBMIT), key=lambda each: each.ended)
    later = [each.job_id for each in asked if each.began > over_at][:1]
    known = {*later, *(each.job_id for each in asked if each.ended <= over_at)}
    ends = [job.finished_at or time.time() for job in jobs if job.id in known]
    over = over_at + time.time() - time.monotonic()
    return max(0.0, max(ends, default=over) - over)


async def _contradictions(service: Service, within_s: float) -> list[Violation]:
    """List what upkeep has not mended after so long."""
    until = time.monotonic() + within_s
    with service.rig.client() as store:
        while found := check_integrity(store, is_quiet=True):
            if time.monotonic() > until:
                break
            await asyncio.sleep(1.0)
    return [Violation(what="contradiction", job="", detail=each) for each in found]


async def _feed(service: Service, client: Client, draw: Random, over: asyncio.Event) -> None:
    """Ask for jobs until the fault is over, and one after that, never many at a time."""
    asked = set[asyncio.Task[None]]()

    async def ask() -> None:
        service.jobs.append(await client.submit(draw.choice(PICTURES)))

    while not over.is_set():
        asked = {each for each in asked if not each.done()}
        if len(asked) < 20:
            asked.add(asyncio.create_task(ask()))
        await asyncio.sleep(draw.uniform(0.0, PAUSE_S))
    await asyncio.gather(*asked, ask())


async def _look(service: Service, client: Client, draw: Random, over: asyncio.Event) -> None:
    """Read jobs of before, so that what was once seen is held against what is seen later."""
    while not over.is_set():
        if service.jobs:
            await client.read(draw.choice(service.jobs))
        await asyncio.sleep(PAUSE_S)


async def _settle(service: Service, job_ids: Sequence[str]) -> None:
    """Return once jobs have ended, or nobody would wait longer; start what has ended."""
    until, waiting = time.monotonic() + PATIENCE_S, set(job_ids)
    while waiting and time.monotonic() < until:
        service.supervise()
        there = {job.id: job for job in await _jobs(service, waiting)}
        waiting = {i for i in waiting if i in there and not there[i].status.is_terminal}
        await asyncio.sleep(0.05)


async def _until_told(service: Service) -> None:
    """Return once webhooks have told of all jobs that are there, or nobody would wait longer."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        service.supervise()
        silent = set(service.jobs) - service.receiver.told.keys()
        if not await _jobs(service, silent):
            return
        await asyncio.sleep(0.2)


async def _jobs(service: Service, ids: Iterable[str]) -> list[Job]:
    """Read jobs; those that are not there are left out."""
    store, found = JobStore(service.redis, max_queue=10_000), list[Job]()
    for job_id in ids:
        with suppress(NotFound):
            found.append(await store.get(job_id))
    return found


async def _ids(service: Service) -> set[str]:
    return {key.decode().removeprefix("job:") async for key in service.redis.scan_iter("job:*")}


async def _ended(service: Service, client: Client, job: Job) -> Ended:
    """See a job as the service has it in the end, and its image as its owner gets it."""
    finishes = await service.redis.hget(f"job:{job.id}", "finishes")
    return Ended(
        status=job.status,
        finishes=int(finishes or 0),
        image=await _image(client, job),
        told=service.receiver.told.get(job.id, ()),
        is_current=all(f"/{job.id}/{job.fence}/" in image.key for image in job.images),
    )


async def _image(client: Client, job: Job) -> str:
    if not job.images:
        return ""
    try:
        return _digest(await client.image(job.id))
    except (httpx.HTTPError, KeyError, ValueError) as error:
        return repr(error)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
