"""Demand that one scheduler observed and forecasts; the leader adds them up. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from core.boards.plan import Usual


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stream:
    """Arrivals that may be served in the same ways."""

    application: str
    models: tuple[str, ...]  #: that may make them, sorted; one if the client chose
    is_exact: bool = False  #: exact levels of the one model in `models`
    is_full: bool = False  #: an edit, say, starts from no latents


class AskedJob(NamedTuple):
    """How large one job was, and within what it was promised."""

    images: int
    promised_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDemand:
    """What one scheduler was asked for lately, and expects to be asked for next."""

    rates: tuple[tuple[Stream, float], ...] = ()  #: jobs of default size per second, expected
    #: application -> class -> prompts among its last ones
    classes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: model asked for by name that the plan does not have -> seconds since that began
    wanted: Mapping[str, float] = field(default_factory=dict)
    is_burst: bool = False  #: more arrives than the plan was made for
    #: work of each second up to an hour ago, oldest first, in jobs of default size
    history: tuple[float, ...] = ()
    history_end: int = 0  #: epoch s after the last second of the history
    #: `promised_as` -> the last jobs
    jobs: Mapping[str, tuple[AskedJob, ...]] = field(default_factory=dict)
    #: model -> jobs sent to it of late, and what they are like; missing: none was
    usual: Mapping[str, tuple[float, Usual]] = field(default_factory=dict)
