"""The queues: wiped, doubled, replayed, turned round."""

import asyncio

from bench.fault.lost_indexes import FAMILIES, INDEXES
from bench.nemesis.history import PICTURES
from bench.nemesis.kind import WORKER_S, Kind, Scene
from core.placement import queue_of
from storage.redis.connect import ask
from tasks.messages import envelope
from tests.rig import CHAIN

#: Upkeep rings again for a job whose message is gone, after so long at most.
REPUBLISH_S = 20.0
#: Upkeep looks through all records so often, here and in production.
REBUILT_S = 60.0
QUEUE = queue_of(CHAIN.name)
WAITING = 40  #: jobs beyond what workers hold
#: Seconds in which these are made too.
MADE_S = WORKER_S + 5.0


async def _lists(scene: Scene) -> list[bytes]:
    """Name the lists of messages that there are."""
    await _many(scene)
    return list(await ask(scene.service.redis, "KEYS", "gen.*"))


async def _many(scene: Scene) -> None:
    """Have more jobs than workers can hold, so that some wait."""
    asked = [scene.client.submit(scene.draw.choice(PICTURES)) for _ in range(WAITING)]
    scene.service.jobs += await asyncio.gather(*asked)


async def wipe(scene: Scene) -> None:
    """Delete every queue."""
    for name in await _lists(scene):
        await ask(scene.service.redis, "DEL", name)


async def double(scene: Scene) -> None:
    """Put every message there is into its queue 50 times."""
    for name in await _lists(scene):
        if messages := await ask(scene.service.redis, "LRANGE", name, 0, -1):
            await ask(scene.service.redis, "LPUSH", name, *messages * 50)


async def replay(scene: Scene) -> None:
    """Send the messages of all jobs again, whether they wait, run or have ended."""
    await _many(scene)
    for job_id in scene.service.jobs * 3:
        await ask(scene.service.redis, "LPUSH", QUEUE, envelope(job_id, QUEUE, 0))


async def reverse(scene: Scene) -> None:
    """Turn queues round."""
    for name in await _lists(scene):
        for message in await ask(scene.service.redis, "LRANGE", name, 0, -1):
            await ask(scene.service.redis, "LREM", name, 1, message)
            await ask(scene.service.redis, "LPUSH", name, message)


async def steal(scene: Scene) -> None:
    """Take every other message away, as a consumer does that dies with what it has fetched."""
    for name in await _lists(scene):
        for message in (await ask(scene.service.redis, "LRANGE", name, 0, -1))[::2]:
            await ask(scene.service.redis, "LREM", name, 1, message)


async def forget_indexes(scene: Scene) -> None:
    """Delete every index, list and queue: all that follows from the records."""
    await _many(scene)
    store = scene.service.redis
    names = [name for pattern in FAMILIES for name in await ask(store, "KEYS", pattern)]
    await ask(store, "DEL", *INDEXES, *names)


KINDS = (
    Kind(name="indexes deleted", do=forget_indexes, recovers_s=REBUILT_S),
    Kind(name="queue wiped", do=wipe, recovers_s=REPUBLISH_S),
    Kind(name="messages stolen", do=steal, recovers_s=REPUBLISH_S),
    Kind(name="messages doubled 50 times", do=double, recovers_s=MADE_S),
    Kind(name="messages of all jobs sent again", do=replay, recovers_s=MADE_S),
    Kind(name="queue turned round", do=reverse, recovers_s=MADE_S),
)
