"""Run the whole service for a while, as an `atelier up` child process that never outlives us."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cli.stack.process import ROOT, TETHER
from core.errors import Unavailable

#: Seconds that `atelier up` may take to stop everything in order.
STOP_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What `atelier up --json` prints once everything is ready."""

    api: str
    flower: str
    store: str
    scheduler: str
    secrets: str  #: path of the file
    logs: str  #: path of the folder
    pids: Mapping[str, int]  #: program -> process id at the start


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A service that runs in a process of ours."""

    addresses: Addresses
    process: "subprocess.Popen[bytes]"

    def stop(self) -> int:
        """Stop it in order and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)


@contextmanager
def running(
    data_dir: Path, *, port: int = 0, workers: int = 1, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a service on free ports, or its api on this one; it is stopped at the end.

    It is killed where the thread that calls this ends in any other way.

    Raises:
        Unavailable: it did not start; its own complaint is on stderr.
    """
    options = [
        "--port",
        str(port),
        "--workers",
        str(workers),
        "--data-dir",
        str(data_dir),
        "--json",
    ]
    tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid())]
    command = [*tether, sys.executable, "-m", "cli.main", "up", *options]
    environment = {**os.environ, **(env or {})}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        try:
            yield Running(addresses=_read_addresses(process), process=process)
        finally:
            _end(process)


def _read_addresses(process: "subprocess.Popen[bytes]") -> Addresses:
    line = process.stdout.readline() if process.stdout else b""
    if not line:
        raise Unavailable("the service did not start")
    return msgspec.json.decode(line, type=Addresses)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Stop a service; the programs of one that is killed die with it."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
