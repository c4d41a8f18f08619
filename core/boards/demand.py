"""Demand that one scheduler observed and forecasts; the leader adds them up. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stream:
    """Arrivals that may be served in the same ways."""

    application: str
    models: tuple[str, ...]  #: that may make them, sorted; one if the client chose
    is_exact: bool = False  #: exact levels of the one model in `models`
    is_full: bool = False  #: an edit, say, starts from no latents


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDemand:
    """What one scheduler was asked for lately, and expects to be asked for next."""

    rates: tuple[tuple[Stream, float], ...] = ()  #: jobs of default size per second, expected
    #: application -> class -> prompts among its last ones
    classes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: model asked for by name that the plan does not have -> seconds since that began
    wanted: Mapping[str, float] = field(default_factory=dict)
    is_burst: bool = False  #: more arrives than the plan was made for
