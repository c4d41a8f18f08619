"""Aggregate checker reports of one level."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.table import Table

from zoo.checker import Aspect, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The outcome of one level."""

    #: Difficulty.
    level: int
    #: Pictures judged.
    count: int
    #: Share of pictures right in every part.
    strict: float
    #: Mean share of right parts.
    share: float
    #: Share of right parts by aspect; an aspect that no caption named is absent.
    aspects: dict[Aspect, float]

    @classmethod
    def of(cls, level: int, reports: Sequence[Report]) -> "Tally":
        """Add up the reports of a level."""
        outcomes: dict[Aspect, list[bool]] = defaultdict(list)
        for report in reports:
            for part in report.parts:
                outcomes[part.aspect].append(part.is_right)
        return cls(
            level=level,
            count=len(reports),
            strict=_mean([report.is_right for report in reports]),
            share=_mean([report.share for report in reports]),
            aspects={aspect: _mean(oks) for aspect, oks in outcomes.items()},
        )

    def as_fields(self) -> dict[str, object]:
        """Give the fields for JSON, shares rounded."""
        rounded = {aspect.value: round(share, 3) for aspect, share in self.aspects.items()}
        figures = {"strict": round(self.strict, 3), "share": round(self.share, 3)}
        return asdict(self) | figures | {"aspects": rounded}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def as_table(title: str, tallies: Sequence[Tally], aspects: Sequence[Aspect]) -> Table:
    """Lay out the tallies of all levels."""
    table = Table("level", "n", "strict", "share", *aspects, title=title)
    for tally in tallies:
        cells = [tally.aspects.get(aspect) for aspect in aspects]
        shown = ["-" if cell is None else f"{cell:.2f}" for cell in cells]
        strict, share = f"{tally.strict:.3f}", f"{tally.share:.3f}"
        table.add_row(str(tally.level), str(tally.count), strict, share, *shown)
    return table
