"""A whole service of real processes, each behind links of its own to the store and the objects."""

import asyncio
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import cast

import httpx
from redis.asyncio import Redis

from bench.nemesis.history import Picture
from bench.nemesis.link import Link
from bench.nemesis.receiver import Receiver
from cli.stack.ports import free_port
from core.errors import StoreUnavailable
from core.settings import Durability
from storage.redis.connect import ask, connect
from tests.rig import CHAIN, Rig, a_rig
from tests.sentinels import WatchedServers, watched
from tests.servers import S3_ACCESS_KEY, S3_SECRET_KEY, Server, redis_server, s3_server


class Setup(StrEnum):
    """How a service is set up: where objects lie, and what stores its jobs."""

    PLAIN = "plain"  #: objects in a folder, one Redis behind links
    S3 = "s3"  #: objects in S3, behind a link
    SENTINELS = "sentinels"  #: a Redis with two replicas, each write confirmed by one of them


LEASE_S = 2.0
WORKERS = ("w0", "w1")
#: What `python -m` runs, by the name of the process.
COMMANDS: Mapping[str, Sequence[str]] = {
    "scheduler": ("run.scheduler",),
    "api": ("run.api",),
    "upkeep": ("run.upkeep",),
    "cpu": ("run.worker", "--cpu"),
    "w0": ("tests.slow_worker",),
    "w1": ("tests.slow_worker",),
}
START_S = 120.0
#: Size of a disk that faults can fill.
DISK_MB = 256


@dataclass(kw_only=True)
class Service:
    """Its processes, by name, and what faults need of them."""

    rig: Rig
    url: str  #: of the api
    redis: Redis  #: a connection of our own, behind no link
    links: Mapping[str, Link]  #: to the store, by the process that it serves
    objects: Link | None  #: to the object store, if that is S3
    s3: Server | None
    watched: WatchedServers | None  #: the store, where sentinels watch it
    receiver: Receiver  #: of the webhooks of all jobs
    disks: Mapping[str, Path]  #: small file systems, by what lies there; none without root
    expected: dict[Picture, str] = field(default_factory=dict)  #: digests, undisturbed
    jobs: list[str] = field(default_factory=list)  #: that the client of the trial has asked for
    exits: Counter[str] = field(default_factory=Counter)  #: of processes that nobody ended

    def start(self, name: str, **env: str) -> None:
        """Start a process, behind its link if there is one."""
        if name in self.links:
            env |= {"ATELIER_REDIS_URL": f"redis://127.0.0.1:{self.links[name].port}/0"}
        self.rig.start(name, *COMMANDS[name], ATELIER_WORKER_NAME=f"{name}@rig", **env)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process."""
        self.rig.processes[name].send_signal(number)

    async def restart(self, name: str, **env: str) -> None:
        """Have a process end in order, and start it with other variables."""
        process = self.rig.processes[name]
        process.terminate()
        await asyncio.to_thread(process.wait, 30.0)
        self.start(name, **env)

    def supervise(self) -> None:
        """Start whatever has ended, as who runs it in production would, and count it."""
        ended = [name for name, each in self.rig.processes.items() if each.poll() is not None]
        for name in ended:
            self.start(name)
        self.exits.update(ended)

    async def until_ready(self) -> None:
        """Return once everything serves."""
        until = time.monotonic() + START_S
        async with httpx.AsyncClient(base_url=self.url, timeout=5.0) as http:
            while not await self._is_ready(http):
                self.supervise()
                if time.monotonic() > until:
                    raise TimeoutError(self.rig.logs())
                await asyncio.sleep(0.1)

    async def _is_ready(self, http: httpx.AsyncClient) -> bool:
        try:
            present = await ask(self.redis, "HKEYS", "fleet")
            is_up = (await http.get("/readyz")).is_success
        except (httpx.HTTPError, StoreUnavailable):
            return False
        return is_up and {f"{name}@rig".encode() for name in WORKERS} <= {*present}

    async def busy_worker(self, draw: random.Random) -> str:
        """Choose a worker that holds jobs."""
        for _ in range(100):
            for name in draw.sample(WORKERS, len(WORKERS)):
                for job_id in self.jobs[-30:]:
                    fields = await self.redis.hmget(f"job:{job_id}", ["status", "worker"])
                    if fields == [b"running", f"{name}@rig".encode()]:
                        return name
            await asyncio.sleep(0.02)
        return draw.choice(WORKERS)


@contextmanager
def running(
    folder: Path, setup: Setup = Setup.PLAIN, settings: Mapping[str, str] | None = None
) -> Iterator[Service]:
    """Run everything until the block ends; `settings`: further variables of each process."""
    with ExitStack() as stack:
        has_disks = os.geteuid() == 0 and setup is Setup.PLAIN
        disks = {name: folder / path for name, path in DISKS.items()} if has_disks else {}
        for name in [name for name, path in disks.items() if not _mounted(path, stack)]:
            del disks[name]
        receiver = Receiver()
        stack.callback(receiver.close)
        port, scheduler = free_port(), free_port()
        url = f"http://127.0.0.1:{port}"
        env = {
            "ATELIER_LEASE_S": str(LEASE_S),
            "ATELIER_MAX_ATTEMPTS": "10",
            "ATELIER_API_PORT": str(port),
            "ATELIER_PUBLIC_URL": url,
            "ATELIER_SCHEDULER_PORT": str(scheduler),
            "ATELIER_SCHEDULER_URL": f"http://127.0.0.1:{scheduler}",
            "ATELIER_PRELOAD": f'["{CHAIN.name}"]',
            "ATELIER_MAX_WAIT_SLOS": "1000",
            **(settings or {}),
        }
        s3 = objects = None
        if setup is Setup.S3:
            s3 = s3_server(folder)
            stack.callback(s3.stop)
            objects = Link(s3.port)
            stack.callback(objects.close)
            env |= {
                "ATELIER_OBJECT_BACKEND": "s3",
                "ATELIER_S3_ENDPOINT": f"127.0.0.1:{objects.port}",
                "ATELIER_S3_ACCESS_KEY": S3_ACCESS_KEY,
                "ATELIER_S3_SECRET_KEY": S3_SECRET_KEY,
            }
        links, store = dict[str, Link](), _STORES.get(setup, redis_server)
        if setup is Setup.SENTINELS:
            env["ATELIER_DURABILITY"] = Durability.STRICT
        rig = stack.enter_context(a_rig(folder, store, models=(CHAIN,), **env))
        if setup is not Setup.SENTINELS:
            links = {name: Link(rig.redis.port) for name in COMMANDS}
        for link in links.values():
            stack.callback(link.close)
        stack.callback(rig.close)  # before their links
        service = Service(
            rig=rig,
            url=url,
            redis=connect(rig.redis.url),
            links=links,
            objects=objects,
            s3=s3,
            watched=rig.redis if isinstance(rig.redis, WatchedServers) else None,
            receiver=receiver,
            disks=disks,
        )
        for name in COMMANDS:
            service.start(name)
        yield service


#: What may lie on a small disk, below the folder of a service.
DISKS = {"objects": Path("data/objects"), "store": Path("redis")}


def _watched(folder: Path) -> Server:
    return cast(Server, watched(folder, num_followers=2))


_STORES: Mapping[Setup, Callable[[Path], Server]] = {Setup.SENTINELS: _watched}


def _mounted(path: Path, stack: ExitStack) -> bool:
    """Mount a small file system for a while; tell whether that was possible."""
    path.mkdir(parents=True)
    words = ["-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(path)]
    made = subprocess.run(["mount", *words], check=False, capture_output=True)
    if made.returncode == 0:
        stack.callback(subprocess.run, ["umount", "-l", str(path)], check=False)
    return made.returncode == 0
