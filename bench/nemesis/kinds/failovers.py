"""Another server leads: after a crash, as planned, and after one that only seemed to be gone."""

import asyncio
from signal import SIGCONT, SIGSTOP

from redis.asyncio import Redis

from bench.nemesis.kind import FAILOVER_S, STORE_S, Kind, Scene
from bench.nemesis.service import Setup
from storage.redis.connect import ask
from tests.sentinels import SERVICE, WatchedServers
from tests.servers import Server

AWAY_S = 4.0
WHOLE_S = 60.0
#: How a server is made to refuse what it would lose; it has not so many replicas.
REPLICAS, NEVER = "min-replicas-to-write", 99


def _store(scene: Scene) -> WatchedServers:
    assert scene.service.watched is not None
    return scene.service.watched


async def _until_led(store: WatchedServers, others: list[Server]) -> None:
    """Return once one of these leads."""
    async with asyncio.timeout(WHOLE_S):
        while not await asyncio.to_thread(lambda: any(store.is_led_by(each) for each in others)):
            await asyncio.sleep(0.05)


async def _until_whole(scene: Scene) -> None:
    """Return once the server that leads has both replicas again."""
    store = _store(scene)
    async with asyncio.timeout(WHOLE_S):
        while True:
            leaders = await asyncio.to_thread(
                lambda: [s for s in store.servers if store.is_led_by(s)]
            )
            for each in leaders:
                async with Redis(port=each.port) as leader:
                    if (await leader.info("replication"))["connected_slaves"] == 2:
                        return
            await asyncio.sleep(0.1)


async def kill(scene: Scene) -> None:
    """Kill the server that leads; it comes back as a replica once another leads."""
    store = _store(scene)
    leader = store.leader
    scene.is_over()  # what it takes to notice counts
    await asyncio.to_thread(store.fail_over)
    await asyncio.to_thread(leader.start)
    await _until_whole(scene)


async def plan(scene: Scene) -> None:
    """Have sentinels choose another, as `docs/failover.md` tells who replaces a machine."""
    store = _store(scene)
    old, others = store.leader, store.followers
    scene.is_over()
    async with Redis(port=store.sentinels[0].port) as sentinel, Redis(port=old.port) as leader:
        await ask(leader, "CONFIG", "SET", REPLICAS, NEVER)
        await ask(sentinel, "SENTINEL", "FAILOVER", SERVICE)
        await _until_led(store, others)
        await _until_whole(scene)
        await ask(leader, "CONFIG", "SET", REPLICAS, 0)


async def freeze(scene: Scene) -> None:
    """Stop the server that leads until another does: it wakes up and believes that it leads."""
    store = _store(scene)
    leader, others = store.leader, store.followers
    scene.is_over()
    leader.pause()
    await _until_led(store, others)
    leader.resume()
    await _until_whole(scene)


async def lose_followers(scene: Scene) -> None:
    """Kill both replicas: nothing that is written can be confirmed."""
    followers = _store(scene).followers
    for each in followers:
        await asyncio.to_thread(each.kill)
    await asyncio.sleep(AWAY_S)
    for each in followers:
        await asyncio.to_thread(each.start)
    await _until_whole(scene)


async def stop_followers(scene: Scene) -> None:
    """Stop both replicas for a while: what is written is confirmed late, or not."""
    followers = _store(scene).followers
    for number in (SIGSTOP, SIGCONT):
        for each in followers:
            assert each.process is not None
            each.process.send_signal(number)
        await asyncio.sleep(AWAY_S if number == SIGSTOP else 0.0)


#: What was seen to end on a leader that is gone may run again: docs/failover.md.
AGAIN = frozenset({"taken back"})
_DONE = {
    "leader of the store killed": (kill, FAILOVER_S, AGAIN),
    "failover as planned": (plan, FAILOVER_S, frozenset[str]()),
    "leader of the store frozen": (freeze, FAILOVER_S, AGAIN),
    "replicas killed": (lose_followers, STORE_S, frozenset[str]()),
    "replicas frozen": (stop_followers, STORE_S, frozenset[str]()),
}
KINDS = tuple(
    Kind(name=name, do=do, recovers_s=bar, setup=Setup.SENTINELS, may=may)
    for name, (do, bar, may) in _DONE.items()
)
