"""What a service holds: memory and files of its processes, keys and bytes of its stores."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.nemesis.service import Service
from tests.rig import Rig

#: Seconds after which a process has what it needs. A fault a minute ends many before they grow old.
GROWN_UP_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """One look at all of it. `memory` and `files`: by process, its children included."""

    at: float  #: monotonic seconds
    memory: Mapping[str, int]  #: bytes that are its own (USS), of those that are grown up
    files: Mapping[str, int]  #: descriptors
    keys: int  #: but those of requests, which live for a day
    store: int  #: bytes that the store says it uses
    shared: int  #: bytes of shared memory that they map
    disk: int  #: bytes of objects


async def look(service: Service) -> Footprint:
    """Look once."""
    memory, files, shared = dict[str, int](), dict[str, int](), 0
    for name, process in _grown_up(service):
        with suppress(psutil.NoSuchProcess):
            family = [process, *process.children(recursive=True)]
            memory[name] = sum(each.memory_full_info().uss for each in family)
            files[name] = sum(each.num_fds() for each in family)
            shared += sum(_shared(each.pid) for each in family)
    told = await service.redis.info("memory")
    return Footprint(
        at=time.monotonic(),
        memory=memory,
        files=files,
        keys=await asyncio.to_thread(_count_keys, service.rig),
        store=int(told["used_memory"]),
        shared=shared,
        disk=_bytes_below(service.rig.folder / "data" / "objects"),
    )


def _grown_up(service: Service) -> Iterator[tuple[str, psutil.Process]]:
    for name, popen in service.rig.processes.items():
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(popen.pid)
            if time.time() - process.create_time() >= GROWN_UP_S:
                yield name, process


def _count_keys(rig: Rig) -> int:
    with rig.client() as store:
        return sum(not key.startswith(b"idem:") for key in store.scan_iter(count=10_000))


def _shared(pid: int) -> int:
    """Read a process' share of what it maps beside others: `memfd`s, mostly. In bytes."""
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError as error:
        raise psutil.NoSuchProcess(pid) from error
    return next(
        (1024 * int(line.split()[1]) for line in told.splitlines() if "Pss_Shmem" in line), 0
    )


def _bytes_below(folder: Path) -> int:
    found = 0
    for each in folder.rglob("*"):
        with suppress(FileNotFoundError):  # upkeep deletes meanwhile
            found += each.stat().st_size if each.is_file() else 0
    return found
