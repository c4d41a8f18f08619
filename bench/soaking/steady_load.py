"""Clients that ask at a steady rate and see each job to its end."""

import asyncio
import hashlib
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import httpx

from bench.nemesis.client import Client
from bench.nemesis.history import PICTURES, Picture
from bench.nemesis.service import Service

#: Seconds between two looks at a job, and until somebody calls it stuck.
LOOK_S, STUCK_S = 0.3, 120.0
#: Of so many jobs one is fetched, and its image compared.
FETCHED = 10
#: Jobs on their way while capacity is looked for.
CROWD = 64


@dataclass(slots=True)
class Counts:
    """What became of all jobs."""

    accepted: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)  #: right or wrong
    seconds: list[float] = field(default_factory=list)  #: from asking to the end that was seen


async def find_capacity(service: Service, seconds: float) -> float:
    """Measure what a service makes when there is always something to make. In jobs a second."""
    counts, draw = Counts(), Random(0)
    client, until = Client(service.url, service.receiver.url), time.monotonic() + seconds

    async def keep_asking() -> None:
        while time.monotonic() < until:
            await _one(service, client, draw.choice(PICTURES), counts)

    began = time.monotonic()
    await asyncio.gather(*(keep_asking() for _ in range(CROWD)))
    await client.close()
    return sum(counts.endings.values()) / (time.monotonic() - began)


async def ask_steadily(service: Service, rate: float, over: asyncio.Event, draw: Random) -> Counts:
    """Ask at a rate, jobs a second, whatever happens, until it is over; see each to its end."""
    counts, client, asked = (
        Counts(),
        Client(service.url, service.receiver.url),
        set[asyncio.Task[None]](),
    )
    while not over.is_set():
        task = asyncio.create_task(_one(service, client, draw.choice(PICTURES), counts))
        asked.add(task)
        task.add_done_callback(asked.discard)
        client.history.operations.clear()  # an hour of them is not what is looked at
        client.history.asked.clear()
        await asyncio.sleep(draw.expovariate(rate))
    await asyncio.gather(*asked)
    await client.close()
    return counts


async def _one(service: Service, client: Client, picture: Picture, counts: Counts) -> None:
    began = time.monotonic()
    job_id = await client.submit(picture)
    counts.accepted += 1
    service.jobs = [*service.jobs[-50:], job_id]
    status, until = None, began + STUCK_S
    while (status is None or not status.is_terminal) and time.monotonic() < until:
        await asyncio.sleep(LOOK_S)
        status = (await client.read(job_id)).status or status
    is_over = status is not None and status.is_terminal
    counts.endings[str(status) if is_over else "stuck"] += 1
    counts.seconds.append(time.monotonic() - began)
    if status == "succeeded" and counts.accepted % FETCHED == 0:
        counts.images[await _judged(client, job_id, service.expected[picture])] += 1


async def _judged(client: Client, job_id: str, expected: str) -> str:
    while True:
        try:
            found = hashlib.sha256(await client.image(job_id)).hexdigest()[:16]
        except (httpx.HTTPError, KeyError):  # the api is being restarted
            await asyncio.sleep(LOOK_S)
        else:
            return "right" if found == expected else "wrong"
