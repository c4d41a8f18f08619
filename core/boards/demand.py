"""Demand that one scheduler observed and forecasts; the leader adds them up. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stream:
    """Arrivals that may be served in the same ways."""

    application: str
    models: tuple[str, ...]  #: that may make them, sorted; one if the client chose
    is_exact: bool = False  #: exact levels of the one model in `models`
    is_full: bool = False  #: an edit, say, starts from no latents

    @property
    def promised_as(self) -> str:
        """Name those of its application's jobs that are promised alike."""
        return promised_as(self.application, self.models)


def promised_as(application: str, models: tuple[str, ...]) -> str:
    """Name those jobs of an application that are promised alike.

    One that only one model may make is promised by what that takes (`scheduler/routing/slo`).
    """
    return f"{application} {models[0]}" if len(models) == 1 else application


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
