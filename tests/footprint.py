"""What do processes hold? Memory, open files, threads."""

from dataclasses import dataclass

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
