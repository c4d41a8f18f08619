"""Start an api with its store and scheduler as processes, and see what it takes and says."""

import json
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.hostility.input import Known
from bench.parts.front import reporting, service
from bench.parts.hostile_files import png
from bench.parts.hostile_models import make_all
from catalog.models import read_models
from cli.stack.ports import free_port
from storage.redis.connect import connect_sync
from tests.servers import Server, redis_server

KEYS = {"hostile-key-of-the-bench": "hostile", "another-key-of-the-bench": "bystander"}
KEY, ANOTHER = KEYS
OPERATOR = "operator-key-of-the-bench"
#: What is right, and spoilt by `hostile_models`.
RIGHT = "shapes-tiny"
START_S = 60.0
#: Seconds between two looks at the memory of the api's processes.
LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A service that is being attacked."""

    api: Server
    redis: Server
    log: Path  #: of the api
    known: Known

    @property
    def recordings(self) -> int:
        """Count the recordings of the hostile client's templates."""
        client = connect_sync(self.redis.url)
        try:
            return int(client.zcard("tenant:~recorder:hostile"))
        finally:
            client.close()


@contextmanager
def running(folder: Path, models: Path) -> Iterator[Running]:
    """Run everything; no worker is there, so that no job ends."""
    scheduler, port = free_port(), free_port()
    with ExitStack() as started:

        def start(server: Server) -> Server:
            started.callback(server.stop)
            return server

        redis = start(redis_server(folder / "redis"))
        started.enter_context(reporting(redis.url, list(read_models(models))))
        settings = {
            "ATELIER_REDIS_URL": redis.url,
            "ATELIER_DATA_DIR": str(folder / "data"),
            "ATELIER_MODELS_DIR": str(_linked(models, folder / "models")),
            "ATELIER_URL_SECRET": "bench",
            "ATELIER_API_KEYS": json.dumps(KEYS),
            "ATELIER_OPERATOR_KEYS": json.dumps([OPERATOR]),
            "ATELIER_API_PORT": str(port),
            "ATELIER_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "ATELIER_SCHEDULER_PORT": str(scheduler),
            "ATELIER_SCHEDULER_URL": f"http://127.0.0.1:{scheduler}",
            "ATELIER_ROUTE_BUDGET_S": "10",
        }
        start(service("run.scheduler", scheduler, folder / "scheduler.log", settings))
        log = folder / "api.log"
        api = start(service("run.api", port, log, settings))
        strange = folder / "strange"
        make_all(strange, models / RIGHT)
        yield Running(api=api, redis=redis, log=log, known=_known(port, strange))


def _linked(models: Path, folder: Path) -> Path:
    """Make a models folder that operators may add to."""
    folder.mkdir()
    for each in models.iterdir():
        (folder / each.name).symlink_to(each)
    return folder


def _known(port: int, strange: Path) -> Known:
    """Submit a job and keep a file, once there is a plan."""
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}) as client:
        while not (job := client.post("/v1/jobs", json={"prompt": "a"})).is_success:
            if time.monotonic() > until:
                raise SystemExit(f"no plan was published: {job.text}")
            time.sleep(0.2)
        file = client.post("/v1/files", content=png(), headers={"Content-Type": "image/png"})
        image = file.raise_for_status().json()["url"].removeprefix(url)
        other = {"Authorization": f"Bearer {ANOTHER}"}
        theirs = client.post("/v1/jobs", json={"prompt": "b"}, headers=other).raise_for_status()
        return Known(
            key=KEY,
            job=job.json()["id"],
            image=image,
            operator=OPERATOR,
            theirs=theirs.json()["id"],
            folder=strange,
        )


class Memory:
    """The most memory that the api and its processes had together."""

    def __init__(self, server: Server) -> None:
        self._pid = server.process.pid if server.process else 0
        self.peak_mib = self._of_one_mib = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def begin(self) -> float:
        """Look at one input from now on; return what there is before it."""
        for pid in self._pids():
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget its high water
        self._of_one_mib = 0.0
        return sum(_status_mib(pid, "VmRSS:") for pid in self._pids())

    def most(self) -> float:
        """Return the most that there was since `begin`."""
        self._look_once()
        return self._of_one_mib

    def stop(self) -> float:
        """Look no more; return the peak."""
        self._is_over.set()
        self._thread.join()
        return self.peak_mib

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self._look_once()

    def _look_once(self) -> None:
        now_mib = sum(map(_high_water_mib, self._pids()))
        self._of_one_mib = max(self._of_one_mib, now_mib)
        self.peak_mib = max(self.peak_mib, now_mib)

    def _pids(self) -> list[int]:
        return [self._pid, *_children(self._pid)]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def waited_s(server: Server) -> float:
    """Read how long a server could have run, and no core was free for it."""
    pid = server.process.pid if server.process else 0
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def resident_mib(server: Server) -> float:
    """Read the memory that a server has now."""
    return _status_mib(server.process.pid if server.process else 0, "VmRSS:")


def _high_water_mib(pid: int) -> float:
    """Read the most memory that a process ever had; none if it is gone."""
    return _status_mib(pid, "VmHWM:")


def _status_mib(pid: int, name: str) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
    return 0.0


def allow_files(count: int) -> None:
    """Let this process open many connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
