"""A report as data: what it says, what it draws, and what was run to make it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reporting.chart import Chart, Shares
from reporting.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """One figure that a reader looks for first."""

    title: str
    figure: str  #: as it is read
    about: str = ""
    tone: str = ""  #: good or bad


Block = Chart | Shares | Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """What belongs together, under one title."""

    title: str
    about: str = ""
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One report."""

    title: str
    answer: str  #: the finding, in a sentence or two
    tone: str = ""  #: of the answer: good or bad
    warnings: Sequence[str] = ()  #: why its figures may mean less than they seem to
    keys: Sequence[KeyFigure] = ()
    chapters: Sequence[Chapter]
    run: Mapping[str, object] = field(default_factory=dict)  #: what was asked for, to repeat it
    notes: Mapping[str, str] = field(default_factory=dict)  #: term -> what it means

    @property
    def charts(self) -> tuple[Chart, ...]:
        """List what is drawn over an axis, in order."""
        return tuple(b for c in self.chapters for b in c.blocks if isinstance(b, Chart))
