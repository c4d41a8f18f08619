"""Run services as processes here, as compose.yaml says: commands, variables, health checks.

What a container has of its own is stood in for: an address of 127/8 in place of its host name, a
folder in place of its file system, where its volumes are links. MinIO is `rclone serve s3`; there
is no Qdrant server, so each scheduler has an index of its own; Prometheus and Grafana are left
out; `cuda` is `cpu`.
"""

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Any

from tests.forwarder import Forwarder
from tests.postgres import postgres_command, postgres_files, postgres_programs
from tests.servers import rclone
from tests.unit.ops.compose import ROOT, read_compose

WRITES = ROOT / "tests" / "writes"
LEFT_OUT = frozenset({"qdrant", "prometheus", "grafana", "profile"})
#: What is set otherwise than compose.yaml says, because something is not at hand here.
INSTEAD = {"ATELIER_DEVICE": "cpu", "ATELIER_VECTORS": "embedded", "ATELIER_DTYPE": "float32"}
HEALTH_S = 240.0  #: seconds until a service must be healthy: other work may run beside
GRACE_S = 10.0  #: seconds after SIGTERM that Docker waits unless the file says more

#: What clients call the api -> services by name, each as compose.yaml writes it.
Services = Callable[[str], dict[str, dict[str, Any]]]


@dataclass(eq=False)
class Container:
    """One process of a service, and the folder that it takes for its file system."""

    name: str
    service: Mapping[str, object]
    address: str
    root: Path
    command: Sequence[str]
    check: Sequence[str]
    env: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    was_killed: bool = False  #: it did not end within its grace

    @property
    def log(self) -> Path:
        return self.root.with_suffix(".log")

    @property
    def grace_s(self) -> float:
        return float(str(self.service.get("stop_grace_period", f"{GRACE_S}s")).rstrip("s"))

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.root / "tmp",
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_healthy(self) -> None:
        until = time.monotonic() + HEALTH_S
        while subprocess.run(self.check, env=self.env, capture_output=True).returncode:
            assert self.is_running, f"{self.name} ended: {self.end_of_log()}"
            assert time.monotonic() < until, f"{self.name} is not healthy: {self.end_of_log()}"
            time.sleep(0.2)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Do what `docker stop` does."""
        assert self.process is not None
        if self.is_running:
            self.process.send_signal(
                signal.Signals[str(self.service.get("stop_signal", "SIGTERM"))]
            )
            try:
                self.process.wait(self.grace_s)
            except subprocess.TimeoutExpired:
                self.was_killed = True
        with_children(self.process.pid)
        self.process.wait()

    def end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def writes(self) -> set[str]:
        """Name the paths that it wrote, as it sees them; of other places as they are."""
        notes = self.root.with_suffix(".writes")
        lines = notes.read_text().splitlines() if notes.exists() else []
        return {line.removeprefix(str(self.root)) for line in lines}

    def writable(self) -> list[str]:
        """Name the folders that it may write to, by compose.yaml."""
        volumes = [volume.split(":") for volume in self.service.get("volumes", [])]
        kept = [target for _, target, *mode in volumes if mode != ["ro"]]
        return [*kept, *(each.split(":")[0] for each in self.service.get("tmpfs", []))]


def with_children(pid: int) -> None:
    """End what is left in the session of a container, as the end of its first process does."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Production:
    """The containers of services, and the names by which they reach each other."""

    def __init__(self, folder: Path, read: Services) -> None:
        """`read` gives the services, once it knows what clients call the api."""
        self.folder = folder
        self._net = ".".join(str(SystemRandom().randrange(1, 255)) for _ in "ab")
        self.services = read(f"http://{self._address(1)}:8000")
        self.addresses = {}
        for number, name in enumerate(sorted(self.services, key=_is_no_front), start=1):
            self.addresses.setdefault(name, self._address(number))
            networks = self.services[name].get("networks", {"default": {"aliases": []}})
            for alias in networks["default"]["aliases"]:
                self.addresses[alias] = self.addresses[name]
        self.containers = [each for name in self.services for each in self._containers(name)]
        self._forwarders: list[Forwarder] = []

    def url(self, service: str, port: int) -> str:
        return f"http://{self.addresses[service]}:{port}"

    def of(self, service: str) -> list[Container]:
        return [each for each in self.containers if each.service is self.services[service]]

    def start(self) -> None:
        """Start every service once those are healthy that it waits for."""
        for name in self._in_order():
            if len(self.of(name)) > 1:
                self._forward(name)
            for container in self.of(name):
                container.start()
            if any(name in each.get("depends_on", {}) for each in self.services.values()):
                self._wait(name)
        for name in self.services:
            self._wait(name)

    def restart(self, container: Container) -> None:
        container.stop()
        container.start()
        container.wait_healthy()

    def close(self) -> None:
        for container in reversed(self.containers):
            if container.process is not None:
                container.stop()
        for forwarder in self._forwarders:
            forwarder.close()

    def _wait(self, name: str) -> None:
        for container in self.of(name):
            container.wait_healthy()

    def _in_order(self) -> Iterator[str]:
        done: set[str] = set()
        while waiting := [name for name in self.services if name not in done]:
            for name in waiting:
                if {*self.services[name].get("depends_on", ())} - LEFT_OUT <= done:
                    yield name
                    done.add(name)

    def _forward(self, name: str) -> None:
        (port,) = {v for k, v in self.services[name]["environment"].items() if k.endswith("_PORT")}
        to = [(each.address, int(port)) for each in self.of(name)]
        self._forwarders.append(Forwarder((self.addresses[name], int(port)), to))

    def _address(self, number: int) -> str:
        return f"127.{self._net}.{number}"

    def _containers(self, name: str) -> Iterator[Container]:
        service = self.services[name]
        replicas = service.get("deploy", {}).get("replicas", 1)
        for number in range(1, replicas + 1):
            is_one = replicas == 1
            address = self.addresses[name] if is_one else self._address(100 + number)
            yield self._container(name if is_one else f"{name}-{number}", service, address)

    def _container(self, name: str, service: Mapping[str, object], address: str) -> Container:
        root = self.folder / name
        there = There(root, address, self.addresses, _mounts(service))
        for source, target in there.mounts:
            _link(root / target.lstrip("/"), self._source(source))
        for each in ("/tmp", *service.get("tmpfs", ())):
            (root / each.split(":")[0].lstrip("/")).mkdir(parents=True, exist_ok=True)
        variables = {**_of_image(service), **service.get("environment", {}), **_instead(service)}
        env = {key: there.here(str(value)) for key, value in variables.items()}
        tmp = str(root / "tmp")
        return Container(
            name=name,
            service=service,
            address=address,
            root=root,
            command=_command(service, there),
            check=_check(service, there),
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
                "PYTHONPATH": f"{ROOT}:{WRITES}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONWARNINGS": "ignore",
                "WRITES": str(root.with_suffix(".writes")),
                "HOME": tmp,
                "TMPDIR": tmp,
                **env,
            },
        )

    def _source(self, source: str) -> Path:
        if source.startswith((".", "/")):
            return (ROOT / source).resolve()
        volume = self.folder / "volumes" / source
        volume.mkdir(parents=True, exist_ok=True)
        return volume


def _is_no_front(name: str) -> bool:
    return not name.endswith("api")


@dataclass(frozen=True)
class There:
    """What a container's words mean here."""

    root: Path
    address: str
    addresses: Mapping[str, str]  #: name of a host -> its address
    mounts: Sequence[tuple[str, str]]

    def here(self, text: str) -> str:
        """Put addresses for host names and folders of ours for its own."""
        text = text.replace("0.0.0.0", self.address).replace("bind * -::*", f"bind {self.address}")
        for name, address in self.addresses.items():
            text = re.sub(rf"(?:(?<=[@/])|^){re.escape(name)}(?=:\d|$)", address, text)
        targets = "|".join(re.escape(target) for _, target in self.mounts)
        known = rf"(?<![\w/.:])({targets}|/var/tmp|/tmp|/data)(?![\w-])"
        return re.sub(known, lambda match: f"{self.root}{match[0]}", text)


def _mounts(service: Mapping[str, object]) -> list[tuple[str, str]]:
    volumes = [volume.split(":") for volume in service.get("volumes", [])]
    return [(source, target) for source, target, *_ in volumes]


def _link(at: Path, to: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(to)


def _of_image(service: Mapping[str, object]) -> dict[str, str]:
    """Read what the image sets, but for where its programs are."""
    if "build" not in service:
        return {}
    text = (ROOT / service["build"]["dockerfile"]).read_text()
    words = [word for line in re.findall(r"^ENV (.*)$", text, re.M) for word in line.split()]
    found = dict(word.split("=", 1) for word in words)
    del found["PATH"]
    return found


def _instead(service: Mapping[str, object]) -> dict[str, str]:
    variables: Mapping[str, str] = service.get("environment", {})
    return {name: value for name, value in INSTEAD.items() if name in variables}


def _command(service: Mapping[str, object], there: There) -> list[str]:
    if str(service["image"]).startswith("postgres:"):
        return _postgres(service, there)
    words: list[str] = [there.here(str(word)) for word in service["command"]]
    if "minio" in str(service["image"]):
        _, folder = words
        variables: Mapping[str, str] = service["environment"]
        keys = f"{variables['MINIO_ROOT_USER']},{variables['MINIO_ROOT_PASSWORD']}"
        options = ["--addr", f"{there.address}:9000", "--auth-key", keys]
        settings = ["--config", str(there.root / "rclone.conf"), "--vfs-cache-mode", "off"]
        return [str(rclone()), "serve", "s3", folder, *options, *settings]
    if "tasks.flower" in words:
        words.append(f"--address={there.address}")
    return [sys.executable, *words[1:]] if words[0] == "python" else words


def _postgres(service: Mapping[str, object], there: There) -> list[str]:
    """Do what the image's entry point does, in a folder that its user may enter."""
    variables: Mapping[str, str] = service["environment"]
    ((volume, _),) = there.mounts
    folder = Path(tempfile.gettempdir()) / f"atelier-{volume}-{there.address}"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    user, password = variables["POSTGRES_USER"], variables["POSTGRES_PASSWORD"]
    made = postgres_files(folder, user, password, variables["POSTGRES_DB"])
    return postgres_command(made, there.address, 5432)


def _check(service: Mapping[str, object], there: There) -> list[str]:
    kind, *words = service["healthcheck"]["test"]
    if "minio" in str(service["image"]):
        probe = f"import socket; socket.create_connection(('{there.address}', 9000), 2)"
        return [sys.executable, "-c", probe]
    if kind == "CMD-SHELL":
        return ["sh", "-c", words[0].replace("redis-cli", f"redis-cli -h {there.address}")]
    words = [word.replace("127.0.0.1", there.address) for word in words]
    host = str(service.get("hostname", ""))
    words = [word.replace(f"@{host}", f"@{socket.gethostname()}") for word in words]
    program = ROOT / "docker" / f"{words[0]}.py"
    return [sys.executable, str(program), *words[1:]] if program.exists() else words


@contextmanager
def production(folder: Path, **given: str) -> Iterator[Production]:
    """Run compose.yaml until the block ends. `given`: variables beside those that must be set."""
    with running(folder, lambda url: composed({"PUBLIC_URL": url, **given})) as found:
        yield found


@contextmanager
def running(folder: Path, read: Services) -> Iterator[Production]:
    """Run services until the block ends."""
    found = Production(folder, read)
    try:
        yield found
    finally:
        found.close()


def composed(given: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Read the services of compose.yaml that run here."""
    services = read_compose(given)["services"]
    return {name: service for name, service in services.items() if name not in LEFT_OUT}


def has_servers() -> bool:
    """Tell whether the stores of compose.yaml can run here."""
    programs = all(shutil.which(name) for name in ("redis-server", "redis-cli"))
    return programs and bool(postgres_programs())
