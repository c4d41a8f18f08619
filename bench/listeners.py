"""Benchmark event streams: a thousand listeners of one api process, and when they hear of a step.

Everything is real but the worker: the api, a Redis-protocol server and the scheduler, each a
process of its own. A process plays a worker that makes a thousand jobs and tells of each a step a
second, in ten batches, as heartbeats do; every tenth listener asks for previews. An event's id is
the store's millisecond of its write, and both are on this machine: the delay is from there until
its line is read. A bystander asks `/healthz` every 20 ms meanwhile.

    python -m bench.listeners --quick
"""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import typer
import uvloop

from bench.hostility.bystander import read_probes, standing_by
from bench.hostility.service import KEY, Running, allow_files, resident_mib, running, waited_s
from bench.parts import telling
from bench.parts.report import Figure, at_least, at_most, finish, machine, percentile, plain
from bench.submit import cpu_s

LISTENERS = 1000
#: Of so many, one asks for previews.
PREVIEWS_OF = 10
#: Seconds in which all listeners have come, and the first events; not measured.
WARM_UP_S = 10.0
#: Where they are: not where the bystander is.
ADDRESS = "127.0.0.3"
ID = re.compile(rb"\nid: (\d+)-\d+\r\n")
#: Seconds between two looks at the memory of the api.
LOOK_S = 5.0
MAX_FILES = 8192


@dataclass(slots=True)
class Heard:
    """What all listeners heard."""

    since: float = float("inf")  #: epoch s; what was written before is not counted
    delays_ms: list[float] = field(default_factory=list)
    previews: int = 0
    broken: int = 0  #: streams that ended

    def take(self, data: bytes) -> None:
        """Note the events in some bytes of a stream."""
        now = time.time()
        self.previews += data.count(b'"preview"')
        for found in ID.finditer(data):
            if (written := int(found[1]) / 1000) >= self.since:
                self.delays_ms.append((now - written) * 1000)


async def listen(port: int, job_id: str, heard: Heard, *, previews: bool) -> None:
    """Follow one job until told to stop."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ADDRESS, 0))
    query = "?previews=true" if previews else ""
    writer.write(
        f"GET /v1/jobs/{job_id}/events{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {KEY}\r\n\r\n".encode()
    )
    try:
        while data := await reader.read(2**16):
            heard.take(data)
        heard.broken += 1
    finally:
        writer.transport.abort()


async def submit_all(service: Running, count: int) -> list[str]:
    """Submit jobs, a few at a time."""
    turns, url = asyncio.Semaphore(16), f"http://127.0.0.1:{service.api.port}"
    async with httpx.AsyncClient(
        base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
    ) as client:

        async def one(at: int) -> str:
            async with turns:
                asked = await client.post("/v1/jobs", json={"prompt": f"a {at}"})
                return str(asked.raise_for_status().json()["id"])

        return list(await asyncio.gather(*map(one, range(count))))


async def follow(service: Running, ids: Sequence[str], seconds: float) -> tuple[Heard, list[float]]:
    """Have everybody listen for so long; return what they heard, and the api's memory."""
    heard, memory = Heard(), []
    tasks = [
        asyncio.create_task(listen(service.api.port, job_id, heard, previews=at % PREVIEWS_OF == 0))
        for at, job_id in enumerate(ids)
    ]
    await asyncio.sleep(WARM_UP_S)
    heard.since = time.time()
    while time.time() < heard.since + seconds:
        memory.append(resident_mib(service.api))
        await asyncio.sleep(LOOK_S)
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    return heard, memory


def figures_of(
    heard: Heard, memory: Sequence[float], took_ms: Sequence[float], seconds: float
) -> dict[str, Figure]:
    """Put what was seen beside its bars."""
    told = len(heard.delays_ms) / seconds
    begun = memory[: max(1, len(memory) // 10)]
    return {
        "event's write to its arrival, p50": plain(percentile(heard.delays_ms, 0.5), "ms"),
        "event's write to its arrival, p99": at_most(percentile(heard.delays_ms, 0.99), 250, "ms"),
        "event's write to its arrival, worst": plain(max(heard.delays_ms), "ms"),
        "/healthz of a bystander, p50": plain(percentile(took_ms, 0.5), "ms"),
        "/healthz of a bystander, p99": at_most(percentile(took_ms, 0.99), 50, "ms"),
        "memory of the api": plain(memory[-1], "MiB"),
        "memory, at the end beside the most of its first tenth": at_most(
            memory[-1] - max(begun), 8, "MiB"
        ),
        "listeners": plain(LISTENERS, ""),
        "streams that broke": at_most(heard.broken, 0, ""),
        "events heard": at_least(told, 0.95 * LISTENERS, "1/s"),
        "previews heard": at_least(heard.previews / seconds, 0.9 * LISTENERS / PREVIEWS_OF, "1/s"),
    }


def main(
    quick: bool = typer.Option(False, help="One minute in place of ten."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
    models: Path = typer.Option(Path("zoo/weights"), help="Folder of the models served."),
) -> None:
    """Listen to a thousand jobs. Example: `python -m bench.listeners --quick`."""
    allow_files(MAX_FILES)
    seconds = 60.0 if quick else 600.0
    with tempfile.TemporaryDirectory() as name, running(Path(name), models.resolve()) as service:
        folder = Path(name)
        ids = asyncio.run(submit_all(service, LISTENERS))
        (folder / "ids").write_text("\n".join(ids))
        command = [sys.executable, "-m", telling.__name__, service.redis.url, str(folder / "ids")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as teller:
            try:
                assert teller.stdout is not None
                claimed = int(teller.stdout.readline())
                if claimed != LISTENERS:
                    raise SystemExit(f"only {claimed} jobs could be claimed")
                began, waited = cpu_s(service.api), waited_s(service.api)
                with standing_by(service.api.port, folder / "probes"):
                    heard, memory = uvloop.run(follow(service, ids, seconds))
                cpu = cpu_s(service.api) - began
                waited = waited_s(service.api) - waited
            finally:
                teller.terminate()
        took_ms = [took * 1e3 for _, took in read_probes(folder / "probes")]
    figures = figures_of(heard, memory, took_ms, seconds) | {
        "CPU time of the api": plain(cpu / seconds, "cores"),
        "the api waited for a core": plain(waited / seconds, "share"),
    }
    raise SystemExit(finish("listeners", figures, where=machine(), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
