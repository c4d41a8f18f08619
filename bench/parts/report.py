"""Benchmark reports: figures against their bars, and one JSON object at the end."""

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number, and what was promised about it."""

    value: float
    unit: str
    bar: str | None = None  #: such as `<= 1.03`
    ok: bool | None = None  #: None where nothing was promised


def plain(value: float, unit: str) -> Figure:
    """A number nothing was promised about."""
    return Figure(value=value, unit=unit)


def at_most(value: float, bar: float, unit: str) -> Figure:
    """A number that must not be higher."""
    return Figure(value=value, unit=unit, bar=f"<= {bar:g}", ok=value <= bar)


def at_least(value: float, bar: float, unit: str) -> Figure:
    """A number that must not be lower."""
    return Figure(value=value, unit=unit, bar=f">= {bar:g}", ok=value >= bar)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """Now, on the wall and in CPU time of this process."""

    wall_s: float
    cpu_s: float

    @classmethod
    def now(cls) -> "Instant":
        return cls(wall_s=time.perf_counter(), cpu_s=time.process_time())

    def __sub__(self, other: "Instant") -> "Instant":
        return Instant(wall_s=self.wall_s - other.wall_s, cpu_s=self.cpu_s - other.cpu_s)


def median(values: Sequence[float]) -> float:
    """The middle of what was measured."""
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the samples does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]


def machine(*notes: str) -> str:
    """One line on where this ran: figures of different machines do not compare."""
    load = f"load {os.getloadavg()[0]:.1f}"
    cores = f"{len(os.sched_getaffinity(0))} cores"
    return ", ".join([_processor(), cores, load, f"Python {platform.python_version()}", *notes])


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def finish(
    bench: str,
    figures: Mapping[str, Figure],
    *,
    where: str,
    is_json: bool,
    table: Table | None = None,
) -> int:
    """Show the figures, then the JSON object; return the exit status: 1 if a bar is missed.

    A `table` is shown in their place.
    """
    console = Console()
    if not is_json:
        console.print(table or _table(bench, figures), where)
    rows = {name: asdict(_rounded(figure)) for name, figure in figures.items()}
    found = {"bench": bench, "machine": where, "figures": rows}
    console.file.write(json.dumps(found) + "\n")
    return int(any(figure.ok is False for figure in figures.values()))


def _rounded(figure: Figure) -> Figure:
    return replace(figure, value=float(f"{figure.value:.5g}"))


def _table(bench: str, figures: Mapping[str, Figure]) -> Table:
    table = Table("figure", "value", "unit", "bar", "ok", title=bench)
    for name, figure in figures.items():
        verdict = {None: "", True: "yes", False: "MISSED"}[figure.ok]
        table.add_row(name, f"{figure.value:.4g}", figure.unit, figure.bar or "", verdict)
    return table
