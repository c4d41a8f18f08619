"""Clients that change their minds, ask twice, or leave."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit
from uuid import uuid4

from bench.nemesis.history import PICTURES
from bench.nemesis.kind import WORKER_S, Kind, Scene
from bench.nemesis.kinds.processes import kill

JOBS = 30


async def _asked(scene: Scene) -> str:
    job_id = await scene.client.submit(scene.draw.choice(PICTURES))
    scene.service.jobs.append(job_id)
    return job_id


async def _each(scene: Scene, do: Callable[[str], Awaitable[object]]) -> None:
    """Do that to jobs at some moment of their lives, several clients at once."""

    async def one() -> None:
        job_id = await _asked(scene)
        await asyncio.sleep(scene.draw.uniform(0.0, 1.0))
        await do(job_id)

    await asyncio.gather(*(one() for _ in range(JOBS)))


async def cancel(scene: Scene) -> None:
    """Cancel jobs about when they end."""
    await _each(scene, scene.client.cancel)


async def delete(scene: Scene) -> None:
    """Delete jobs that wait, run, or are about to end."""
    await _each(scene, scene.client.delete)


async def cancel_and_kill(scene: Scene) -> None:
    """Cancel what runs, and kill the api as it is told."""
    await asyncio.gather(
        _each(scene, scene.client.cancel), kill(scene, "api"), kill(scene, "worker")
    )


async def ask_twice(scene: Scene) -> None:
    """Send the same request twenty times at once, as clients do whose proxy asks again."""
    for _ in range(10):
        key, picture = uuid4().hex, scene.draw.choice(PICTURES)
        scene.client.history.asked[key] = picture
        await asyncio.gather(*(scene.client.try_submit(picture, key) for _ in range(20)))
        scene.service.jobs.append(await scene.client.submit(picture, key))


async def leave(scene: Scene) -> None:
    """Send half a request and go; send a whole one and do not wait for the answer."""
    address = urlsplit(scene.service.url)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    half = f'{head}Content-Length: 500\r\n\r\n{{"prompt": "a red'.encode()
    for _ in range(100):
        with (
            suppress(OSError),
            socket.create_connection((address.hostname, address.port), 1.0) as s,
        ):
            s.sendall(half)
        await asyncio.sleep(0.01)


async def refuse(scene: Scene) -> None:
    """Have the receiver of webhooks refuse all of them for a while."""
    scene.service.receiver.refuses = True
    await asyncio.sleep(3.0)
    scene.service.receiver.refuses = False


KINDS = (
    Kind(name="receiver refuses", do=refuse, recovers_s=WORKER_S),
    Kind(name="cancel against finish", do=cancel, recovers_s=WORKER_S),
    Kind(name="jobs deleted meanwhile", do=delete, recovers_s=WORKER_S),
    Kind(name="cancelled as api and worker die", do=cancel_and_kill, recovers_s=WORKER_S),
    Kind(name="one request twenty times", do=ask_twice, recovers_s=WORKER_S),
    Kind(name="clients leave", do=leave, recovers_s=WORKER_S),
)
