"""Processes that are killed, frozen or asked to end: each role in turn, and all of them."""

import asyncio
from functools import partial
from signal import SIGCONT, SIGKILL, SIGSTOP

from bench.nemesis.kind import START_S, WORKER_S, Kind, Scene
from bench.nemesis.service import COMMANDS, LEASE_S

ROLES = ("worker", "api", "scheduler", "upkeep", "cpu")
FROZEN_S = 2 * LEASE_S


async def _name(scene: Scene, role: str) -> str:
    return await scene.service.busy_worker(scene.draw) if role == "worker" else role


async def kill(scene: Scene, role: str) -> None:
    """Kill -9; whoever runs it starts it again."""
    service, name = scene.service, await _name(scene, role)
    service.signal(name, SIGKILL)
    await asyncio.to_thread(service.rig.processes[name].wait)
    service.start(name)


async def freeze(scene: Scene, role: str) -> None:
    """Stop a process for two leases: it wakes up and believes that no time has passed."""
    name = await _name(scene, role)
    scene.service.signal(name, SIGSTOP)
    await asyncio.sleep(FROZEN_S)
    scene.service.signal(name, SIGCONT)


async def end(scene: Scene, role: str) -> None:
    """Ask a process to end, and start it again."""
    await scene.service.restart(await _name(scene, role))


async def kill_all(scene: Scene) -> None:
    """Kill every process of ours at the same time: the machine's power, but for the store."""
    for name in COMMANDS:
        scene.service.signal(name, SIGKILL)
    for name in COMMANDS:
        await asyncio.to_thread(scene.service.rig.processes[name].wait)
        scene.service.start(name)


async def kill_again_and_again(scene: Scene) -> None:
    """Kill busy workers, one after the other, as fast as they come back."""
    for _ in range(4):
        await kill(scene, "worker")
        await asyncio.sleep(scene.draw.uniform(0.2, 1.5))


async def roll(scene: Scene) -> None:
    """Restart everything in turn, under load."""
    for name in COMMANDS:
        await scene.service.restart(name)
        await asyncio.sleep(0.5)


def _bar(role: str, word: str) -> float:
    """Say how soon all is well: the one api must start again, whose work nobody else does."""
    return WORKER_S + (START_S if role == "api" and word != "frozen" else 0.0)


_DONE = {"killed": kill, "frozen": freeze, "ended": end}
KINDS = (
    *(
        Kind(name=f"{role} {word}", do=partial(do, role=role), recovers_s=_bar(role, word))
        for role in ROLES
        for word, do in _DONE.items()
    ),
    Kind(name="all killed", do=kill_all, recovers_s=START_S + WORKER_S),
    Kind(name="workers killed in a row", do=kill_again_and_again, recovers_s=START_S + WORKER_S),
    Kind(name="rolling restart", do=roll, recovers_s=START_S + WORKER_S),
)
