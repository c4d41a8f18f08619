"""How long does one placement take, alone and through the service?

The service is a real process beside a real Redis server; its CPU time is read from /proc, so a
busy machine does not change the figure. Bars: InstGenIE 0.6 ms and Proteus 1 ms a decision.

    python -m bench.route --quick
"""

import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import typer

from core.errors import StoreUnavailable
from core.fleet import Worker
from core.placement import PlacementQuery
from core.plan import PasmRow
from core.variant import Model
from scheduler.classify import OneClass
from scheduler.placer import NO_PLAN, Placer
from storage.connect import connect_sync
from storage.fleet import report
from storage.server import find_server_binary, server_command

NAMES = ("base", "small", "tiny")
QUERY = PlacementQuery(prompt="a red circle on a blue background", models=NAMES)
SHARES = {"base@0": 0.5, "small@0": 0.3, "tiny@0": 0.2}


def decisions(samples: int) -> list[float]:
    """Classify, count and route one query at a time.

    Units: milliseconds each, sorted
    """
    placer = Placer({name: Model(name=name, family="noop") for name in NAMES}, OneClass())
    row = PasmRow(application="default", affinity="any", shares=SHARES)
    workers = {f"w{i}": name for i, name in enumerate(NAMES)}
    placer.follow(replace(NO_PLAN, version=1, assignments=workers, pasm=(row,)))
    taken = []
    for i in range(samples):
        began = time.perf_counter()
        placer.place([QUERY], i * 1e-3)
        taken.append((time.perf_counter() - began) * 1e3)
    return sorted(taken)


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, int]]:
    """Run Redis, three workers that report once, and the scheduler; yield its URL and pid."""
    with ExitStack() as stack:
        store_port, port = free_port(), free_port()
        stack.enter_context(running(server_command(find_server_binary(), folder, store_port)))
        url = f"redis://127.0.0.1:{store_port}/0"
        settings = {"REDIS_URL": url, "MODELS_DIR": folder, "DATA_DIR": folder}
        settings |= {"SCHEDULER_PORT": port, "WORKER_STALE_S": 3600}
        environ = os.environ | {f"ATELIER_{name}": str(value) for name, value in settings.items()}
        for name in NAMES:
            (folder / name).mkdir()
            (folder / name / "atelier.json").write_text(f'{{"name": "{name}", "family": "noop"}}')
            report_once(url, name)
        command = [sys.executable, "-m", "scheduler.main"]
        process = stack.enter_context(running(command, environ))
        await_plan(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}", process.pid


@contextmanager
def running(
    command: list[str], environ: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program for as long as the block."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environ, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10.0)


def free_port() -> int:
    """Find a port nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def report_once(url: str, name: str) -> None:
    """Report a worker as soon as the store answers."""
    worker = Worker(name=name, device_type="cpu", models=(name,), queues=(), memory_gib=4.0)
    client = connect_sync(url)
    for _ in range(100):
        try:
            return report(client, worker)
        except StoreUnavailable:
            time.sleep(0.05)
    raise SystemExit("the store did not start")


def await_plan(url: str) -> None:
    """Wait until the service has a plan for all workers."""
    for _ in range(200):
        try:
            if len(httpx.get(f"{url}/plan").json()["assignments"]) == len(NAMES):
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit("the scheduler did not start")


def cpu_seconds(pid: int) -> float:
    """Read the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def per_cpu_second(url: str, pid: int, batch: int, calls: int) -> float:
    """Place batches one after the other; count jobs placed per CPU second of the service."""
    body = msgspec.json.encode({"queries": [QUERY] * batch})
    with httpx.Client() as client:
        began = cpu_seconds(pid)
        for _ in range(calls):
            answer = client.post(f"{url}/route", content=body).raise_for_status()
        spent = cpu_seconds(pid) - began
        if any("error" in item for item in answer.json()["placements"]):
            raise SystemExit("the service placed nothing")
    return batch * calls / spent


def main(
    quick: bool = typer.Option(False, help="A tenth of the samples."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
) -> None:
    """Measure placements. Example: `python -m bench.route --quick`."""
    scale = 1 if quick else 10
    taken = decisions(10_000 * scale)
    p99 = taken[int(0.99 * len(taken))]
    figures: dict[str, dict[str, object]] = {
        "decision, p99": {"value": round(p99, 4), "unit": "ms", "bar": "<= 1", "ok": p99 <= 1.0}
    }
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as (url, pid):
        for batch, calls in ((1, 500 * scale), (32, 200 * scale)):
            rate = per_cpu_second(url, pid, batch, calls)
            bar = {"bar": ">= 2000", "ok": rate >= 2000} if batch > 1 else {"bar": None, "ok": None}
            figures[f"service, {batch} a call"] = {"value": round(rate), "unit": "jobs/CPU s"} | bar
    if not as_json:
        for name, row in figures.items():
            typer.echo(f"{name:24} {row['value']:>10} {row['unit']}")
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    typer.echo(json.dumps({"bench": "route", "machine": machine, "figures": figures}))
    raise SystemExit(0 if all(row["ok"] is not False for row in figures.values()) else 1)


if __name__ == "__main__":
    typer.run(main)
