"""Benchmark the api: submits per CPU second.

Everything is real: the api, a Redis-protocol server with its append-only file, and the scheduler
service, each in a process of its own. What is counted is the CPU time of the api process alone
(user and system, from /proc), so a busy machine changes the wall figures but hardly the claim.
With the placement call: every job is placed by the scheduler. Without: the scheduler is not
there, and every job is placed by the last published plan.

    python -m bench.submit --quick
"""

import asyncio
import json
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import typer

from bench.parts.front import reporting, service
from catalog.models import read_models
from cli.stack.ports import free_port
from tests.servers import Server, redis_server

BAR_WITH = 700.0  #: submits per CPU second of the api, placement call included
BAR_WITHOUT = 1200.0
CONNECTIONS = 32
WARM_UP = 500  #: submits before the clock starts
START_S = 60.0

SHAPES = ("circle", "square", "triangle", "star")
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")


@dataclass(slots=True)
class Round:
    """What one burst of submits took."""

    cpu_s: float = 0.0  #: of the api process
    wall_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    placed_by: Counter[str] = field(default_factory=Counter)

    @property
    def per_cpu_s(self) -> float:
        return len(self.latencies_s) / self.cpu_s


def bodies(count: int) -> list[bytes]:
    """Write that many submits, like those of people: no two alike, some longer, some options."""
    made = []
    for i in range(count):
        one, other = SHAPES[i % 4], SHAPES[i // 4 % 4]
        colour, second = COLOURS[i % 6], COLOURS[i // 6 % 6]
        prompt = f"a {colour} {one}, {i}"
        if i % 2:
            pair = f"a large {colour} {one} above a small {second} {other}"
            prompt = f"{pair} on a white background, {i}"
        options = {"steps": 20, "seed": i} if i % 3 else {}
        made.append(json.dumps({"prompt": prompt, **options}).encode())
    return made


async def send_all(port: int, requests: Sequence[bytes], into: Round) -> None:
    """Submit everything over a few connections, each with one request in flight."""
    waiting = iter(requests)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    await asyncio.gather(*(_send_some(port, head, waiting, into) for _ in range(CONNECTIONS)))


async def _send_some(port: int, head: str, waiting: Iterator[bytes], into: Round) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for body in waiting:
        began = time.perf_counter()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        content = await reader.readexactly(length)
        into.latencies_s.append(time.perf_counter() - began)
        if b" 202 " not in answer.split(b"\r\n")[0]:
            raise SystemExit(f"a submit was refused: {content.decode()}")
        into.placed_by[json.loads(content)["placement"]["placed_by"]] += 1
    writer.close()
    await writer.wait_closed()


def measure(api: Server, count: int) -> Round:
    """Warm the api up, then count its CPU time over `count` submits."""
    asyncio.run(send_all(api.port, bodies(WARM_UP), Round()))
    result, requests = Round(), bodies(count)
    cpu, began = cpu_s(api), time.perf_counter()
    asyncio.run(send_all(api.port, requests, result))
    result.cpu_s = cpu_s(api) - cpu
    result.wall_s = time.perf_counter() - began
    return result


def cpu_s(server: Server) -> float:
    """Read the CPU time a process has used, user and system."""
    pid = server.process.pid if server.process else 0
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def stack(folder: Path, models: Path) -> Iterator[tuple[Server, Server]]:
    """Run everything; yield an api with a scheduler and one whose scheduler is not there."""
    ports = [free_port() for _ in range(4)]
    with ExitStack() as running:

        def start(server: Server) -> Server:
            running.callback(server.stop)
            return server

        redis = start(redis_server(folder / "redis"))
        common = {
            "ATELIER_REDIS_URL": redis.url,
            "ATELIER_DATA_DIR": str(folder / "data"),
            "ATELIER_MODELS_DIR": str(models),
            "ATELIER_URL_SECRET": "bench",
            "ATELIER_MAX_QUEUE": "10000000",
            "ATELIER_SCHEDULER_PORT": str(ports[0]),
        }
        running.enter_context(reporting(redis.url, list(read_models(models))))
        start(service("run.scheduler", ports[0], folder / "scheduler.log", common))
        apis = []
        for port, scheduler in ((ports[1], ports[0]), (ports[2], ports[3])):
            own = {
                "ATELIER_ROUTE_BUDGET_S": "10",  # a busy machine must not spare the api the call
                "ATELIER_API_PORT": str(port),
                "ATELIER_PUBLIC_URL": f"http://127.0.0.1:{port}",
                "ATELIER_SCHEDULER_URL": f"http://127.0.0.1:{scheduler}",
            }
            apis.append(start(service("run.api", port, folder / f"api{port}.log", common | own)))
            wait_for_plan(port)
        yield apis[0], apis[1]


def wait_for_plan(port: int) -> None:
    """Return once a submit is accepted."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if httpx.post(f"http://127.0.0.1:{port}/v1/jobs", json={"prompt": "a"}).is_success:
            return
        time.sleep(0.2)
    raise SystemExit("no plan was published")


def figures_of(name: str, made: Round, bar: float) -> dict[str, dict[str, object]]:
    """Put what was measured beside its bar."""
    taken = sorted(made.latencies_s)

    def row(value: float, unit: str, bar: float | None = None) -> dict[str, object]:
        is_ok = None if bar is None else value >= bar
        return {"value": round(value, 2), "unit": unit, "bar": bar and f">= {bar:g}", "ok": is_ok}

    return {
        f"{name}, submits per CPU second": row(made.per_cpu_s, "1/s", bar),
        f"{name}, submits per second": row(len(taken) / made.wall_s, "1/s"),
        f"{name}, latency p50": row(taken[len(taken) // 2] * 1e3, "ms"),
        f"{name}, latency p99": row(taken[int(len(taken) * 0.99)] * 1e3, "ms"),
    }


def main(
    quick: bool = typer.Option(False, help="2,000 submits instead of 15,000."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
    models: Path = typer.Option(Path("zoo/weights"), help="Folder of the models served."),
) -> None:
    """Measure submits. Example: `python -m bench.submit --quick`."""
    count = 2000 if quick else 15_000
    figures: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder, stack(Path(folder), models.resolve()) as apis:
        rounds = (
            ("with the placement call", apis[0], BAR_WITH, "scheduler"),
            ("without the call", apis[1], BAR_WITHOUT, "plan"),
        )
        for name, api, bar, expected in rounds:
            made = measure(api, count)
            if made.placed_by[expected] < 0.99 * count:
                raise SystemExit(f"{name}: placed by {dict(made.placed_by)}")
            figures |= figures_of(name, made, bar)
            if not as_json:
                typer.echo(f"{name:24} {made.per_cpu_s:7.0f} per CPU s")
    machine = f"{platform.machine()}, Python {platform.python_version()}, {CONNECTIONS} connections"
    typer.echo(json.dumps({"bench": "submit", "machine": machine, "figures": figures}))
    raise SystemExit(0 if all(row["ok"] is not False for row in figures.values()) else 1)


if __name__ == "__main__":
    typer.run(main)
