"""Benchmark a failover of the store: how long nothing is accepted, and what is forgotten.

A server, two replicas (`strict` needs one after the leader is gone) and three sentinels. Jobs are
submitted one after another, again with the same id while the store is away; the leader is killed
(SIGKILL) amid them. Sentinels call a server gone after one second here.

    python -m bench.failover --quick
"""

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import typer

from bench.parts.report import Figure, at_most, finish, machine, median, plain
from core.errors import NotFound, StoreUnavailable
from core.settings import Durability
from storage.jobs.jobs import JobStore
from storage.redis.connect import connect
from storage.redis.strict import confirming
from tests.rig import new_job
from tests.sentinels import watched

BEFORE_S, AFTER_S = 1.0, 1.0  #: of accepted jobs
FAILOVER_S = 15.0


class Accepted(NamedTuple):
    """A job that was answered for, and when."""

    id: str
    at: float


class Found(NamedTuple):
    """What one failover cost."""

    accepted: int
    gap_s: float  #: between two jobs that were accepted, the longest
    lost: int  #: accepted, and unknown afterwards
    window_s: float  #: from the first of them to the kill


async def fail_over(folder: Path, durability: Durability) -> Found:
    """Submit throughout, kill the leader once, and look for every job that was accepted."""
    store = watched(folder, num_followers=2)
    redis = connect(store.url)
    jobs = JobStore(redis, max_queue=10**6, confirm=confirming(durability, store.url))
    try:
        accepted, killed_at = await _submit_across(jobs, store.fail_over)
        lost = [each for each in accepted if not await _is_known(jobs, each.id)]
    finally:
        await redis.aclose()
        store.stop()
    gaps = [b.at - a.at for a, b in pairwise(accepted)]
    window = killed_at - lost[0].at if lost else 0.0
    return Found(len(accepted), max(gaps), len(lost), window)


async def _submit_across(jobs: JobStore, kill: Callable[[], None]) -> tuple[list[Accepted], float]:
    accepted: list[Accepted] = []
    until, killer, killed_at = time.monotonic() + BEFORE_S, None, 0.0
    while True:
        job = new_job()
        while True:
            with suppress(StoreUnavailable):
                await jobs.submit([job])
                break
            await asyncio.sleep(0.01)
        accepted.append(Accepted(job.id, time.monotonic()))
        if time.monotonic() < until:
            continue
        if killer is None:
            killer, killed_at = threading.Thread(target=kill), time.monotonic()
            killer.start()
        elif not killer.is_alive():
            if time.monotonic() > until + AFTER_S:
                return accepted, killed_at
        else:
            until = time.monotonic()


async def _is_known(jobs: JobStore, job_id: str) -> bool:
    try:
        await jobs.get(job_id)
    except NotFound:
        return False
    return True


def _figures(name: str, found: list[Found]) -> dict[str, Figure]:
    gaps = sorted(each.gap_s for each in found)
    lost = sum(each.lost for each in found)
    return {
        f"{name}: jobs accepted": plain(sum(each.accepted for each in found), ""),
        f"{name}: nothing accepted, median": plain(median(gaps), "s"),
        f"{name}: nothing accepted, longest": at_most(gaps[-1], FAILOVER_S, "s"),
        f"{name}: accepted and forgotten": at_most(lost, 0, "")
        if name == Durability.STRICT
        else plain(lost, ""),
        f"{name}: oldest of them before the kill": plain(
            max(each.window_s for each in found) * 1e3, "ms"
        ),
    }


def main(
    quick: bool = typer.Option(False, help="Two failovers of each kind in place of ten."),
    json: bool = typer.Option(False, help="Only the JSON object."),
) -> None:
    """Kill the store's leader again and again. Example: `python -m bench.failover --quick`."""
    shown: dict[str, Figure] = {}
    with tempfile.TemporaryDirectory() as folder:
        for durability in Durability:
            found = [
                asyncio.run(fail_over(Path(folder) / f"{durability}-{n}", durability))
                for n in range(2 if quick else 10)
            ]
            shown |= _figures(durability, found)
    raise SystemExit(finish("failover", shown, where=machine("down after 1 s"), is_json=json))


if __name__ == "__main__":
    typer.run(main)
