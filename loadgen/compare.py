"""Compare two runs, figure by figure. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.errors import ConfigurationError
from loadgen.report import Report

#: A difference is beyond chance if it is more than so many standard errors.
SIGMAS = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One figure of two runs."""

    name: str
    before: float
    after: float
    change: float | None  #: relative; None: from nothing
    is_clear: bool | None = None  #: beyond chance; None: it cannot be said from a report alone


def read_report(path: Path) -> Report:
    """Read a run's report.json, or the folder that it is in.

    Raises:
        ConfigurationError: there is none.
    """
    file = path / "report.json" if path.is_dir() else path
    try:
        return msgspec.json.decode(file.read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{file}: no report of a load: {error}") from error


def compare(before: Report, after: Report) -> list[Difference]:
    """List the figures that both runs have."""
    pairs = zip(_figures(before), _figures(after), strict=True)
    return [
        _difference(name, one, other, (before.asked, after.asked))
        for (name, one), (_, other) in pairs
        if one is not None and other is not None
    ]


def _figures(report: Report) -> Sequence[tuple[str, float | None]]:
    good = report.endings.get("succeeded", 0) / report.asked if report.asked else None
    latency = report.latency
    return (
        ("became images", good),
        ("late", report.late),
        ("goodput", report.goodput),
        ("quality", report.quality),
        ("asked /s", report.offered_per_s),
        ("done /s", report.succeeded_per_s),
        ("p50 s", latency.p50 if latency else None),
        ("p95 s", latency.p95 if latency else None),
        ("p99 s", latency.p99 if latency else None),
    )


def _difference(name: str, one: float, other: float, asked: tuple[int, int]) -> Difference:
    is_share = name in {"became images", "late"}
    return Difference(
        name=name,
        before=one,
        after=other,
        change=(other - one) / one if one else None,
        is_clear=_is_clear(one, other, asked) if is_share else None,
    )


def _is_clear(one: float, other: float, asked: tuple[int, int]) -> bool:
    """Test two shares: the normal approximation with pooled variance."""
    whole = (one * asked[0] + other * asked[1]) / sum(asked)
    error = math.sqrt(whole * (1 - whole) * (1 / asked[0] + 1 / asked[1]))
    return abs(other - one) > SIGMAS * error
