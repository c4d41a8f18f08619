"""The store: killed, frozen, full, and behind networks that cut, part, delay and lose answers."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from bench.nemesis.kind import STORE_S, WORKER_S, Kind, Scene
from bench.nemesis.link import Link
from bench.nemesis.service import COMMANDS, LEASE_S
from storage.redis.connect import ask

AWAY_S = 2 * LEASE_S
EVERYBODY = tuple(COMMANDS)


@asynccontextmanager
async def _links(scene: Scene, names: Sequence[str]) -> AsyncIterator[list[Link]]:
    links = [scene.service.links[name] for name in names]
    try:
        yield links
    finally:
        for link in links:
            link.heal()


async def part(scene: Scene, names: Sequence[str]) -> None:
    """Let nothing through between some processes and the store."""
    async with _links(scene, names) as links:
        for link in links:
            link.part()
        await asyncio.sleep(AWAY_S)


async def lose_answers(scene: Scene, names: Sequence[str]) -> None:
    """Let requests through, and no answers: what was done is not known."""
    async with _links(scene, names) as links:
        for link in links:
            link.is_deaf = True
        await asyncio.sleep(AWAY_S)


async def delay(scene: Scene) -> None:
    """Let every piece of data take a tenth of a second, in both directions."""
    async with _links(scene, EVERYBODY) as links:
        for link in links:
            link.delay_s = 0.1
        await asyncio.sleep(AWAY_S)


async def cut(scene: Scene, times: int) -> None:
    """Reset all connections, again and again."""
    for _ in range(times):
        for name in EVERYBODY:
            scene.service.links[name].cut()
        await asyncio.sleep(scene.draw.uniform(0.05, 0.5))


async def kill(scene: Scene) -> None:
    """Kill -9, and start it with what it had written."""
    store = scene.service.rig.redis
    await asyncio.to_thread(store.kill)
    await asyncio.sleep(scene.draw.uniform(0.1, AWAY_S))
    await asyncio.to_thread(store.start)


async def restart(scene: Scene) -> None:
    """End it in order, and start it again."""
    await asyncio.to_thread(scene.service.rig.redis.restart)


async def freeze(scene: Scene) -> None:
    """Stop the process: connections stay open, and nothing is answered."""
    scene.service.rig.redis.pause()
    await asyncio.sleep(AWAY_S)
    scene.service.rig.redis.resume()


async def pause_writes(scene: Scene) -> None:
    """Hold every write back, as a store does whose replica is being promoted."""
    await ask(scene.service.redis, "CLIENT", "PAUSE", int(AWAY_S * 1000), "WRITE")
    await asyncio.sleep(AWAY_S)


async def refuse_writes(scene: Scene) -> None:
    """Make it a replica of nobody, which refuses what is written, as after a failover."""
    await ask(scene.service.redis, "REPLICAOF", "127.0.0.1", "1")
    await asyncio.sleep(AWAY_S)
    await ask(scene.service.redis, "REPLICAOF", "NO", "ONE")


async def fill_memory(scene: Scene) -> None:
    """Leave it without memory for anything new."""
    await ask(scene.service.redis, "CONFIG", "SET", "maxmemory", "1")
    await asyncio.sleep(AWAY_S)
    await ask(scene.service.redis, "CONFIG", "SET", "maxmemory", "0")


async def forget_scripts(scene: Scene) -> None:
    """Have it forget the scripts that clients call by their digests, again and again."""
    for _ in range(20):
        await ask(scene.service.redis, "SCRIPT", "FLUSH")
        await asyncio.sleep(0.1)


async def rewrite(scene: Scene) -> None:
    """Kill it while it rewrites its file."""
    await ask(scene.service.redis, "BGREWRITEAOF")
    await asyncio.sleep(scene.draw.uniform(0.0, 0.05))
    await kill(scene)


_BY_ROLE: Mapping[str, Sequence[str]] = {
    "worker": ("w0",),
    "api": ("api",),
    "scheduler": ("scheduler",),
    "upkeep": ("upkeep",),
    "everybody": EVERYBODY,
}
KINDS = (
    Kind(name="store killed", do=kill, recovers_s=STORE_S),
    Kind(name="store killed as it rewrites its file", do=rewrite, recovers_s=STORE_S),
    Kind(name="store restarted", do=restart, recovers_s=STORE_S),
    Kind(name="store frozen", do=freeze, recovers_s=STORE_S),
    Kind(name="store holds writes", do=pause_writes, recovers_s=STORE_S),
    Kind(name="store refuses writes", do=refuse_writes, recovers_s=STORE_S),
    Kind(name="store without memory", do=fill_memory, recovers_s=STORE_S),
    Kind(name="store forgets scripts", do=forget_scripts, recovers_s=STORE_S),
    Kind(name="store slow", do=delay, recovers_s=STORE_S),
    Kind(name="connections cut", do=partial(cut, times=1), recovers_s=STORE_S),
    Kind(name="connections cut again and again", do=partial(cut, times=15), recovers_s=STORE_S),
    *(
        Kind(
            name=f"{who} parted from the store", do=partial(part, names=names), recovers_s=WORKER_S
        )
        for who, names in _BY_ROLE.items()
    ),
    *(
        Kind(
            name=f"answers to {who} lost",
            do=partial(lose_answers, names=names),
            recovers_s=WORKER_S,
        )
        for who, names in _BY_ROLE.items()
    ),
)
