"""Benchmark a registry of ten thousand LoRAs against a hundredth of it.

What a submit reads, what a person lists, what a worker does before its first LoRA, and what upkeep
does every ten minutes: with as many LoRAs as a tenant may keep, and with a hundredth of them. The
store is a real server; files lie in a folder. Wall times, so noise is of the machine.

    python -m bench.lora_registry --quick
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import typer
from pydantic import SecretStr

from bench.parts.report import Figure, at_most, finish, machine, median, plain
from catalog.lora.bounds import read_bounds
from core.settings import PROFILE, Settings
from core.uploads.lora import KeptLora, lora_key
from core.uploads.upload import UploadKind
from scheduler.profile.profile_file import Measured, write_measured
from storage.objects.store import open_objects
from storage.redis.connect import connect
from storage.tenants.uploads import UploadStore
from tasks.upkeep.orphaned_files import OrphanedFiles
from tests.servers import redis_server

TENANT = "bench"
#: LoRAs of the largest registry and of the one it is compared with.
MANY, FEW = 10_000, 100
#: Records that are on their way at the same time while a registry is filled.
TOGETHER = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds, each the median of several rounds."""

    get: float  #: one record, as a submit reads it
    first: float  #: a page of a hundred, the newest
    last: float  #: the page before the oldest
    start: float  #: what a worker reads of LoRAs when it starts: a bound for each
    sweep: float  #: of upkeep: which files are nobody's any more


async def measure(url: str, folder: Path, count: int, rounds: int) -> Times:
    """Fill a registry of so many LoRAs, and use it."""
    settings = Settings(data_dir=folder, url_secret=SecretStr("bench"))
    redis = connect(url)
    loras, objects = UploadStore(redis, KeptLora, max_uploads=count), open_objects(settings)
    ids = [f"{at:032x}" for at in range(count)]
    for start in range(0, count, TOGETHER):
        await asyncio.gather(*(loras.add(a_lora(each)) for each in ids[start : start + TOGETHER]))
    (folder / "objects" / "loras" / TENANT).mkdir(parents=True)
    for each in ids:
        (folder / "objects" / lora_key(TENANT, each)).write_bytes(b"x")
    bounds = {"shapes-xl": {each * 2: 10 for each in ids}}
    write_measured(folder / PROFILE, Measured(bounds=bounds))
    files = OrphanedFiles(folder="loras", objects=objects, records=loras, grace_s=1.0)
    oldest = await cursor_before_last(loras)

    async def start_worker() -> None:
        read_bounds(settings.profile_path)

    times = Times(
        get=await timed(lambda: loras.get(UploadKind.LORA, ids[count // 2], TENANT), 20 * rounds),
        first=await timed(lambda: loras.list(UploadKind.LORA, TENANT, limit=100), rounds),
        last=await timed(
            lambda: loras.list(UploadKind.LORA, TENANT, limit=100, cursor=oldest), rounds
        ),
        start=await timed(start_worker, rounds),
        sweep=await timed(files.sweep, rounds),
    )
    await redis.aclose()
    return times


def a_lora(lora_id: str) -> KeptLora:
    """A record like any other."""
    return KeptLora(
        id=lora_id,
        tenant=TENANT,
        key=lora_key(TENANT, lora_id),
        models=("shapes-xl",),
        num_layers=164,
        bound=None,
        size_bytes=1,
        sha256=lora_id * 2,
    )


async def cursor_before_last(loras: UploadStore[KeptLora]) -> str | None:
    """Go through all pages, and say where the last one begins."""
    cursor, before = None, None
    while True:
        page = await loras.list(UploadKind.LORA, TENANT, limit=100, cursor=cursor)
        if page.cursor is None:
            return before
        cursor, before = page.cursor, page.cursor


async def timed(call: Callable[[], Awaitable[object]], rounds: int) -> float:
    """Give the median of some calls, after one that is not counted. Units: seconds."""
    await call()
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def figures_of(many: Times, few: Times) -> dict[str, Figure]:
    """Compare a large registry with a small one."""
    return {
        "a submit reads one of 10,000": plain(1e3 * many.get, "ms"),
        "one of 10,000 / one of 100": at_most(many.get / few.get, 1.5, "ratio"),
        "first page of 10,000": plain(1e3 * many.first, "ms"),
        "first page of 10,000 / of 100": at_most(many.first / few.first, 1.5, "ratio"),
        "last page of 10,000 / page of 100": at_most(many.last / few.first, 1.5, "ratio"),
        "a worker starts, with a bound for each": at_most(1e3 * many.start, 50.0, "ms"),
        "sweep of 10,000 files, every ten minutes": at_most(many.sweep, 10.0, "s"),
    }


def main(
    quick: bool = typer.Option(False, help="Fewer rounds, wider noise."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Use a registry of many LoRAs. Example: `python -m bench.lora_registry --quick`."""
    rounds = 5 if quick else 15
    found = []
    for count in (FEW, MANY):
        with TemporaryDirectory() as folder:
            server = redis_server(Path(folder))
            try:
                data = Path(folder) / "data"
                found.append(asyncio.run(measure(server.url, data, count, rounds)))
            finally:
                server.stop()
    few, many = found
    raise SystemExit(
        finish("lora_registry", figures_of(many, few), where=machine(), is_json=as_json)
    )


if __name__ == "__main__":
    typer.run(main)
