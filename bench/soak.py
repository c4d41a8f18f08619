"""Soak the whole service: an hour at 80 % of what it makes, a fault a minute; nothing grows.

Real processes, a client that sees each job to its end, and kinds of `bench.nemesis` drawn one after
another. Jobs are kept for five minutes, so what is kept stops growing. What a process holds is
looked at once it is a minute old; each figure is the last quarter beside the second.

    python -m bench.soak --minutes 8
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import typer

from bench.nemesis.client import Client
from bench.nemesis.kind import Kind, Scene
from bench.nemesis.kinds.table import KINDS, can
from bench.nemesis.service import Service, Setup, running
from bench.nemesis.trial import learn
from bench.parts.report import Figure, at_most, finish, machine, median, percentile, plain
from bench.soaking.footprint import Footprint, look
from bench.soaking.steady_load import Counts, ask_steadily, find_capacity

LOAD, EVERY_S, LOOK_S = 0.8, 60.0, 5.0
CAPACITY_S = 30.0
#: Minutes of a soak that shows no more than that it works.
SHORTEST = 4.0
#: A job is kept for so long; a soak that is shorter keeps it for a quarter of itself.
KEPT_S = 300.0
#: What may be more in the last quarter: noise of a heap, and what load fluctuates.
FLAT = 1.05
#: Descriptors that may be open for requests on their way.
ON_THEIR_WAY = 32


Read = Callable[[Footprint], float]


async def soak(service: Service, minutes: float, draw: Random) -> tuple[Counts, list[Footprint]]:
    """Load and disturb a service; look at it all along."""
    await service.until_ready()
    await learn(service)
    rate = LOAD * await find_capacity(service, CAPACITY_S)
    over, seen = asyncio.Event(), list[Footprint]()
    load = asyncio.create_task(ask_steadily(service, rate, over, draw))
    watch = asyncio.create_task(_watch(service, seen, over))
    until = time.monotonic() + 60.0 * minutes
    await _disturb(service, until, draw)
    over.set()
    await watch
    return await load, seen


async def _watch(service: Service, seen: list[Footprint], over: asyncio.Event) -> None:
    while not over.is_set():
        service.supervise()
        with suppress(OSError):  # the store is away
            seen.append(await look(service))
        await asyncio.sleep(LOOK_S)


async def _disturb(service: Service, until: float, draw: Random) -> None:
    client, kinds = Client(service.url, service.receiver.url), list[Kind]()
    while (begins := time.monotonic() + EVERY_S) < until:
        await asyncio.sleep(EVERY_S / 2)  # in which it is looked at
        kinds = kinds or draw.sample(_kinds(service), len(_kinds(service)))
        kind = kinds.pop()
        typer.echo(f"{until - time.monotonic():6.0f} s to go: {kind.name}", err=True)
        await kind.do(Scene(service=service, client=client, draw=draw))
        await service.until_ready()
        await asyncio.sleep(max(0.0, begins - time.monotonic()))
    await client.close()


def _kinds(service: Service) -> list[Kind]:
    return [each for each in KINDS.values() if each.setup is Setup.PLAIN and can(each, service)]


def figures_of(counts: Counts, seen: Sequence[Footprint]) -> dict[str, Figure]:
    """Lay endings beside what was promised, and the last quarter beside the second."""
    ended = counts.endings
    figures = {
        "jobs accepted": plain(counts.accepted, ""),
        "jobs that did not succeed": at_most(ended.total() - ended["succeeded"], 0, ""),
        "jobs accepted and without an end": at_most(counts.accepted - ended.total(), 0, ""),
        "images compared": plain(counts.images.total(), ""),
        "images that differ": at_most(counts.images["wrong"], 0, ""),
        "a job, median": plain(median(counts.seconds), "s"),
        "a job, p99": plain(percentile(counts.seconds, 0.99), "s"),
    }
    for name in sorted({name for each in seen for name in each.memory}):
        figures |= _growth(f"{name}: memory", seen, partial(_memory, name), "MiB")
        figures |= _more(f"{name}: files", seen, partial(_files, name))
    return (
        figures
        | _growth("keys of the store", seen, lambda f: f.keys, "")
        | _growth("memory of the store", seen, lambda f: f.store / 2**20, "MiB")
        | _growth("shared memory", seen, lambda f: f.shared / 2**20, "MiB")
        | _growth("objects on the disk", seen, lambda f: f.disk / 2**20, "MiB")
    )


def _memory(name: str, footprint: Footprint) -> float:
    return footprint.memory.get(name, 0) / 2**20


def _files(name: str, footprint: Footprint) -> float:
    return footprint.files.get(name, 0)


def _growth(what: str, seen: Sequence[Footprint], read: Read, unit: str) -> dict[str, Figure]:
    if (found := _quarters(seen, read)) is None:
        return {}
    second, last = found
    return {
        f"{what}, last quarter": plain(last, unit),
        f"{what}, last quarter / second": at_most(last / second, FLAT, "ratio"),
    }


def _more(what: str, seen: Sequence[Footprint], read: Read) -> dict[str, Figure]:
    if (found := _quarters(seen, read)) is None:
        return {}
    second, last = found
    return {f"{what}, last quarter - second": at_most(last - second, ON_THEIR_WAY, "")}


def _quarters(seen: Sequence[Footprint], read: Read) -> tuple[float, float] | None:
    """Take medians of the second and of the last. A process that was too young says nothing."""
    quarter = len(seen) // 4
    parts = seen[quarter : 2 * quarter], seen[-quarter:]
    second, last = ([value for each in part if (value := read(each))] for part in parts)
    return (median(second), median(last)) if second and last else None


def main(
    minutes: float = typer.Option(60.0, min=SHORTEST, help="How long."),
    quick: bool = typer.Option(False, help=f"{SHORTEST:.0f} minutes: too short for what grows."),
    seed: int = typer.Option(0, help="Of load and faults."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Load, disturb and watch a service for long. Example: `python -m bench.soak --minutes 8`."""
    minutes = SHORTEST if quick else minutes
    kept_s = min(KEPT_S, 15.0 * minutes)
    with tempfile.TemporaryDirectory(prefix="atelier-soak-") as folder:
        env = {"ATELIER_RETENTION_S": str(kept_s), "ATELIER_LATENTS_TTL_S": str(kept_s)}
        with running(Path(folder), settings=env) as service:
            counts, seen = asyncio.run(soak(service, minutes, Random(seed)))
    where = machine(f"{minutes:.0f} minutes, a fault a minute")
    raise SystemExit(finish("soak", figures_of(counts, seen), where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
