"""What a report draws: lines and areas over an axis, and shares that make up a whole. Pure data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reporting.unit import Unit


class Shape(StrEnum):
    """How the values of a curve are joined."""

    LINE = "line"
    STEP = "step"  #: each holds until the next
    AREA = "area"  #: as steps, filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values over a chart's x; None where there is none."""

    name: str
    values: Sequence[float | None]
    paint: str  #: a name of `reporting.palette`
    shape: Shape = Shape.LINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A straight line that figures are held against."""

    at: float
    text: str
    is_upright: bool = False  #: at an x, else at a y


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Curve over one axis."""

    name: str  #: in files: letters, digits, underscores
    title: str
    about: str = ""  #: a sentence under the title
    x: Sequence[float]  #: rising
    x_unit: Unit | None = None  #: None: time since the start, as 1:30
    unit: Unit
    curves: Sequence[Curve]
    is_stacked: bool = False
    low: float | None = 0.0  #: where y begins; None: where its values do
    high: float | None = None  #: where y ends; None: where its values do
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Bars of equal length, each divided into its parts."""

    title: str
    about: str = ""
    parts: Mapping[str, str]  #: part -> paint, in their order
    rows: Mapping[str, Mapping[str, float]]  #: row -> part -> share; they add up to one


def is_empty(chart: Chart) -> bool:
    """Tell whether there is nothing to draw."""
    return not chart.x or all(value is None for each in chart.curves for value in each.values)
