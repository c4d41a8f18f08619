"""What do processes hold? Memory, open files, threads."""

from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What some processes hold together."""

    mib: float
    files: int
    threads: int

    def __sub__(self, other: "Footprint") -> "Footprint":
        return Footprint(
            mib=self.mib - other.mib,
            files=self.files - other.files,
            threads=self.threads - other.threads,
        )


def footprint(*pids: int) -> Footprint:
    """Add up what some processes hold, and this one."""
    of = [psutil.Process(pid) for pid in (None, *pids)]
    return Footprint(
        mib=sum(each.memory_info().rss for each in of) / 2**20,
        files=sum(each.num_fds() for each in of),
        threads=sum(each.num_threads() for each in of),
    )


class Memory:
    """Memory of this process from now on (MiB): what it holds, and the most that it held."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        self.before = _status("VmRSS")

    @property
    def held(self) -> float:
        return _status("VmRSS") - self.before

    @property
    def peak(self) -> float:
        return _status("VmHWM") - self.before


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024
