"""Workers that vanish and a server that is killed, all at once, against the real store.

The server syncs every write here, so that what it has answered survives: then every accepted job
must end exactly once, and no answer that was lost on the way may do anything twice.
"""

import asyncio
import contextlib
import random
import threading
from collections import Counter
from pathlib import Path

import redis

from core.errors import StoreUnavailable
from core.job import Claim, JobStatus, Progress
from storage.jobs.integrity import check_integrity
from storage.jobs.leases import LeaseStore, Outcome
from storage.jobs.submit import Submitted
from storage.redis.connect import connect, connect_sync
from tests.contract.house import RedisHouse, id_of, new_job
from tests.servers import Server, redis_server

JOBS = 200
KILLS = 5
DONE = Outcome(status=JobStatus.SUCCEEDED)


class Flaky(threading.Thread):
    """A worker that forgets one claim in four, as if it had died, and finishes the rest."""

    def __init__(self, url: str, name: str, is_over: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.client = connect_sync(url)
        self.leases = LeaseStore(self.client, worker=name, lease_s=0.3)
        self.chance = random.Random(name)
        self.is_over = is_over
        self.zombies: list[Claim] = []

    def run(self) -> None:
        while not self.is_over.is_set():
            with contextlib.suppress(StoreUnavailable):
                self.work()
        self.client.close()

    def work(self) -> None:
        message = self.pop()
        claim = self.leases.claim(message) if message is not None else None
        if claim is None:
            self.is_over.wait(0.005)
            return
        if self.chance.random() < 0.25:
            self.zombies.append(claim)
            return
        self.leases.progress({claim.job.id: Progress(step=1, steps=2)})
        while not self.is_over.wait(0.002):
            with contextlib.suppress(StoreUnavailable):
                self.leases.finish(claim.job.id, claim.fence, DONE)
                return

    def pop(self) -> str | None:
        try:
            raw = self.client.rpop("gen.m")
        except (redis.RedisError, OSError) as error:
            raise StoreUnavailable(str(error)) from error
        return id_of(raw.decode()) if isinstance(raw, bytes) else None


def finishes(client: redis.Redis, ids: list[str]) -> Counter[int]:
    """Count jobs by how often they ended: `{1: len(ids)}` means exactly once, all of them."""
    return Counter(int(client.hget(f"job:{job_id}", "finishes") or 0) for job_id in ids)


async def test_every_accepted_job_ends_exactly_once_whatever_dies(tmp_path: Path) -> None:
    server = redis_server(tmp_path / "redis")
    server.command = ["always" if word == "everysec" else word for word in server.command]
    server.restart()
    house = RedisHouse(connect(server.url), connect_sync(server.url))
    over = threading.Event()
    workers = [Flaky(server.url, f"w{i}", over) for i in range(3)]
    for worker in workers:
        worker.start()
    try:
        keeper = asyncio.create_task(keep(house))
        killer = asyncio.create_task(kill(server))
        accepted = await submit_all(house)
        await killer
        await asyncio.wait_for(until_all_ended(house, accepted), 60.0)
        keeper.cancel()
        over.set()
        for worker in workers:
            await asyncio.to_thread(worker.join)
        assert finishes(house.sync, accepted) == {1: len(accepted)}
        assert check_integrity(house.sync) == []
        assert (await house.stats())["finished"] == len(accepted) == JOBS
        refused = [late(server, w, c) for w in workers for c in w.zombies]
        assert refused and not any(refused), "a zombie's write is refused"
    finally:
        over.set()
        await house.close()
        server.stop()


async def submit_all(house: RedisHouse) -> list[str]:
    accepted: list[str] = []
    for number in range(JOBS):
        job = new_job(f"j{number}", hook=("completed",))
        while True:
            with contextlib.suppress(StoreUnavailable):
                [answer] = await house.jobs.submit([job])
                if isinstance(answer, Submitted):
                    break
            await asyncio.sleep(0.05)
        accepted.append(job.id)
    return accepted


async def kill(server: Server) -> None:
    chance = random.Random(7)
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.2, 0.6))
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(chance.uniform(0.0, 0.2))
        await asyncio.to_thread(server.restart)


async def keep(house: RedisHouse) -> None:
    sweeper = house.sweeper(max_attempts=50)
    while True:
        with contextlib.suppress(StoreUnavailable):
            await sweeper.reap()
            await sweeper.republish(0.2)
        await asyncio.sleep(0.05)


async def until_all_ended(house: RedisHouse, ids: list[str]) -> None:
    while (await house.stats()).get("finished", 0) < len(ids):
        await asyncio.sleep(0.05)


def late(server: Server, worker: Flaky, claim: Claim) -> bool:
    """Let a worker thought dead finish its old claim after all."""
    client = connect_sync(server.url)
    try:
        leases = LeaseStore(client, worker=worker.name, lease_s=1.0)
        outcome = Outcome(status=JobStatus.FAILED)
        return leases.finish(claim.job.id, claim.fence, outcome)
    finally:
        client.close()
