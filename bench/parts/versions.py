"""Run processes of two versions of the service beside one store, and replace one by another."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import redis

from cli.stack.ports import free_port
from tests.forwarder import Forwarder
from tests.map import HOUSES
from tests.servers import Server, redis_server

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
MODEL = "shapes-xl"
START_S = 120.0  #: a process that is not ready by then will not be
STOP_S = 30.0
#: A worker that stops hands over what takes longer: images go on in the other version.
SHUTDOWN_S = 0.5


class NoHistory(Exception):
    """This clone does not reach back to a commit."""


def check_out(commit: str, folder: Path) -> Path:
    """Lay out the packages of a commit.

    Raises:
        NoHistory: a shallow clone, or no clone at all.
    """
    words = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, *HOUSES]
    try:
        done = subprocess.run(words, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistory(f"there is no commit {commit} here: git fetch --unshallow") from error
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@dataclass(slots=True, kw_only=True)
class Member:
    """One process of the service, of either version."""

    name: str
    command: tuple[str, ...]  #: after `python -m`
    env: Mapping[str, str]  #: beside what all have
    is_ready: Callable[[], bool]
    process: "subprocess.Popen[bytes] | None" = None


@dataclass(slots=True, kw_only=True)
class MixedService:
    """A whole service, each process of which is of one version or the other."""

    folder: Path
    store: Server
    api: str  #: what clients call either api
    env: Mapping[str, str]
    members: dict[str, Member] = field(default_factory=dict)

    def replace(self, name: str, tree: Path) -> None:
        """Stop one process in order, and start it from the packages in `tree`."""
        self.stop(name)
        self.start(name, tree)

    def start(self, name: str, tree: Path) -> None:
        """Start one process; return once it serves."""
        member = self.members[name]
        with self.log_of(name).open("ab") as log:
            member.process = subprocess.Popen(
                [sys.executable, "-m", *member.command],
                cwd=tree,
                env={**self.env, **member.env, "PYTHONPATH": str(tree)},
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + START_S
        while not member.is_ready():
            if member.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{name} does not start: {self.log_of(name).read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, name: str) -> None:
        """Stop one process in order; one that hangs is killed."""
        process, self.members[name].process = self.members[name].process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log_of(self, name: str) -> Path:
        """Say where a process logs, whatever its version."""
        return self.folder / f"{name}.log"


#: The order in which an upgrade replaces processes (docs/operations.md); back it is the other way.
ORDER = ("worker-1", "worker-2", "api-1", "api-2", "scheduler-1", "scheduler-2", "upkeep", "cpu")


@contextmanager
def mixed_service(folder: Path, **env: str) -> Iterator[MixedService]:
    """Prepare a service of two workers, apis and schedulers; its processes are started by name."""
    _lay_out_models(folder)
    store = redis_server(folder / "redis")
    ports = {name: free_port() for name in ORDER if name[:-2] in ("api", "scheduler")}
    fronts = {kind: free_port() for kind in ("api", "scheduler")}
    forwarders = [
        Forwarder((HOST, front), [(HOST, p) for name, p in ports.items() if name[:-2] == kind])
        for kind, front in fronts.items()
    ]
    service = MixedService(
        folder=folder,
        store=store,
        api=f"http://{HOST}:{fronts['api']}",
        env={**_environment(folder, store.url, fronts), **env},
    )
    service.members.update({name: _member(name, service, ports) for name in ORDER})
    try:
        yield service
    finally:
        for name in service.members:
            service.stop(name)
        for forwarder in forwarders:
            forwarder.close()
        store.stop()


def _lay_out_models(folder: Path) -> None:
    (folder / "models").mkdir(parents=True)
    (folder / "models" / MODEL).symlink_to(ROOT / "zoo" / "weights" / MODEL)
    for name in ("profile.json", "classifier"):
        (folder / name).symlink_to(ROOT / "zoo" / name)


def _environment(folder: Path, redis_url: str, fronts: Mapping[str, int]) -> dict[str, str]:
    ours = {key: value for key, value in os.environ.items() if not key.startswith("ATELIER_")}
    return {
        **ours,
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "ATELIER_LOG_JSON": "true",
        "ATELIER_REDIS_URL": redis_url,
        "ATELIER_MODELS_DIR": str(folder / "models"),
        "ATELIER_CONTROLNETS_DIR": os.devnull,
        "ATELIER_DATA_DIR": str(folder / "data"),
        "ATELIER_PUBLIC_URL": f"http://{HOST}:{fronts['api']}",
        "ATELIER_SCHEDULER_URL": f"http://{HOST}:{fronts['scheduler']}",
        "ATELIER_URL_SECRET": "secret of the bench",
        "ATELIER_SHUTDOWN_S": str(SHUTDOWN_S),
        "ATELIER_LEASE_S": "5",
        "ATELIER_BEAT_S": "1",
        "ATELIER_LATENTS_GIB": "0",
        "ATELIER_SCORE_SHARE": "0",
        "ATELIER_SLO_S": "600",
    }


def _member(name: str, service: MixedService, ports: Mapping[str, int]) -> Member:
    kind = name[:-2] if name[-2] == "-" else name
    upper = kind.upper()
    if name in ports:
        return Member(
            name=name,
            command=(f"run.{kind}",),
            env={
                f"ATELIER_{upper}_PORT": str(ports[name]),
                # The index of prompts has one owner; this bench has no use for it.
                "ATELIER_DATA_DIR": str(service.folder / ("data" if kind == "api" else name)),
            },
            is_ready=lambda: _answers(f"http://{HOST}:{ports[name]}/healthz"),
        )
    if kind == "worker":
        return Member(
            name=name,
            command=("run.worker",),
            env={"ATELIER_WORKER_NAME": f"{name}@bench"},
            is_ready=lambda: _reports(service, f"{name}@bench"),
        )
    command = ("run.upkeep",) if kind == "upkeep" else ("run.worker", "--cpu")
    return Member(name=name, command=command, env={}, is_ready=lambda: True)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2.0, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _reports(service: MixedService, worker: str) -> bool:
    with redis.Redis.from_url(service.store.url) as client:
        return bool(client.hexists("fleet", worker))
