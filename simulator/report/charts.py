"""Draw what policies delivered over time, beside each other and each by itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from core.levels.level import Level
from reporting.chart import Chart, Curve, Mark, Shape, Shares
from reporting.palette import paint_of, ramp
from reporting.unit import COUNT, PER_MINUTE, QUALITY, SECONDS, SHARE, Unit
from simulator.outcome import PolicyOutcome, Series
from simulator.report.stretches import merged, shares, values

#: Outcomes by the names that they are shown under.
Named = Mapping[str, PolicyOutcome]

POINTS = 161  #: of a curve over seconds
WORKERS = Unit(digits=1)
SLOWEST = 0.995  #: share of the jobs that a figure over seconds reaches


class Figure(NamedTuple):
    """One figure of a stretch, drawn for every policy."""

    name: str
    title: str
    about: str
    unit: Unit
    get: Callable[[Series], list[float | None]]


FIGURES = (
    Figure(
        "goodput",
        "Goodput",
        "Quality of jobs on time, over all that were asked for.",
        QUALITY,
        lambda one: values(one.goodput),
    ),
    Figure(
        "late",
        "Late jobs",
        "Of those that came in a stretch.",
        SHARE,
        lambda one: shares(one.late, one.demand),
    ),
    Figure(
        "quality",
        "Quality",
        "Mean of the images made, late ones too.",
        QUALITY,
        lambda one: values(one.quality),
    ),
    Figure(
        "busy",
        "Workers in use",
        "Share of their time in which they compute.",
        SHARE,
        lambda one: values(one.busy),
    ),
)


def together(named: Named) -> Iterator[Chart]:
    """Draw what changes over time, all policies in each chart."""
    series = {name: merged(outcome.series) for name, outcome in named.items()}
    yield _demand(series)
    for figure in FIGURES:
        yield _drawn(figure, series)
    yield _loading(series)


def _x(series: Series) -> list[float]:
    return [float(at) for at in series.begins_s]


def _demand(series: Mapping[str, Series]) -> Chart:
    first = next(iter(series.values()))
    asked = Curve(
        name="asked",
        values=[float(count) / first.stretch_s for count in first.demand],
        paint="muted",
        shape=Shape.AREA,
    )
    return Chart(
        name="demand",
        title="Demand and images made",
        about="Jobs that came, and jobs that were done.",
        x=_x(first),
        unit=PER_MINUTE,
        curves=[asked, *_curves(series, lambda one: [float(n) / one.stretch_s for n in one.done])],
    )


def _loading(series: Mapping[str, Series]) -> Chart:
    return Chart(
        name="loading",
        title="Workers that load a model",
        about="They make nothing meanwhile.",
        x=_x(next(iter(series.values()))),
        unit=WORKERS,
        curves=_curves(series, lambda one: values(one.loading), Shape.STEP),
    )


def _drawn(figure: Figure, series: Mapping[str, Series]) -> Chart:
    is_share = figure.unit is SHARE
    return Chart(
        name=figure.name,
        title=figure.title,
        about=figure.about,
        x=_x(next(iter(series.values()))),
        unit=figure.unit,
        low=0.0 if is_share else None,
        high=None if is_share else 1.0,
        curves=_curves(series, figure.get),
    )


def _curves(
    series: Mapping[str, Series],
    get: Callable[[Series], Sequence[float | None]],
    shape: Shape = Shape.LINE,
) -> list[Curve]:
    length = len(next(iter(series.values())).demand)
    return [
        Curve(name=name, values=_padded(get(one), length), paint=paint_of(i), shape=shape)
        for i, (name, one) in enumerate(series.items())
    ]


def _padded(row: Sequence[float | None], length: int) -> list[float | None]:
    """Outcomes of one workload end at different times: all get as many stretches as the first."""
    return [*row[:length], *([None] * (length - len(row)))]


def latency(named: Named) -> Chart:
    """Draw which share of all jobs has its images within so many seconds."""
    taken = {
        name: np.sort((outcome.ended_s - outcome.at_s)[outcome.is_counted])
        for name, outcome in named.items()
    }
    made = [row[~np.isnan(row)] for row in taken.values()]
    ends = [float(np.quantile(row, SLOWEST)) for row in made if len(row)]
    at = np.linspace(0.0, max(ends), POINTS) if ends else np.zeros(0)
    slos = {round(float(slo), 3) for outcome in named.values() for slo in np.unique(outcome.slo_s)}
    return Chart(
        name="latency",
        title="Latency",
        about="Share of all jobs whose images were there within so many seconds.",
        x=[float(value) for value in at],
        x_unit=SECONDS,
        unit=SHARE,
        high=1.0,
        curves=[
            Curve(
                name=name,
                values=[float(each) / len(row) for each in np.searchsorted(row, at, "right")],
                paint=paint_of(i),
            )
            for i, (name, row) in enumerate(taken.items())
            if len(row)
        ],
        marks=[
            Mark(at=slo, text=f"SLO {SECONDS.write(slo)}", is_upright=True)
            for slo in sorted(slos)
            if len(slos) <= 2 and ends and slo <= max(ends)
        ],
    )


def levels_best_first(named: Named) -> list[str]:
    """List the levels that some job got: by model, the best images first, each from all its steps.

    A level is not ranked by its own images: easy prompts get the fastest.
    """
    levels: dict[str, float] = {}
    for outcome in named.values():
        for index, level in enumerate(outcome.levels):
            got = outcome.quality[(outcome.level == index) & ~np.isnan(outcome.ended_s)]
            if len(got):
                levels[level] = max(levels.get(level, 0.0), _mean(got))
    read = sorted(map(Level.read, levels))
    best = {each.model: max(levels[x.name] for x in read if x.model == each.model) for each in read}
    return [each.name for each in sorted(read, key=lambda each: -best[each.model])]


def _mean(figures: np.typing.NDArray[np.float64]) -> float:
    known = figures[~np.isnan(figures)]
    return float(known.mean()) if len(known) else 0.0


def level_shares(named: Named) -> Shares:
    """Draw which level the jobs of each policy got."""
    levels, rows = levels_best_first(named), {}
    for name, outcome in named.items():
        found = outcome.figures()["levels"]
        rows[name] = dict(found) if isinstance(found, Mapping) else {}
    return Shares(
        title="Levels that jobs got",
        about="By model, the best images first; of the jobs that were made.",
        parts=ramp(levels),
        rows=rows,
    )


def levels_over_time(named: Named) -> Iterator[Chart]:
    """Draw the levels of each policy over time."""
    paints = ramp(levels_best_first(named))
    for name, outcome in named.items():
        series = merged(outcome.series)
        total = series.levels.sum(axis=1)
        yield Chart(
            name=f"levels_{name}",
            title=f"{name}: levels",
            x=_x(series),
            unit=SHARE,
            high=1.0,
            is_stacked=True,
            curves=[
                Curve(
                    name=level,
                    values=shares(series.levels[:, outcome.levels.index(level)], total),
                    paint=paint,
                    shape=Shape.AREA,
                )
                for level, paint in paints.items()
                if level in outcome.levels and series.levels[:, outcome.levels.index(level)].any()
            ],
        )


def models_over_time(named: Named) -> Iterator[Chart]:
    """Draw how many workers hold each model, for each policy."""
    models = sorted({model for outcome in named.values() for model in outcome.models})
    paints = {model: paint_of(i) for i, model in enumerate(models)}
    for name, outcome in named.items():
        series = merged(outcome.series)
        yield Chart(
            name=f"models_{name}",
            title=f"{name}: workers by model",
            x=_x(series),
            unit=COUNT,
            is_stacked=True,
            curves=[
                Curve(
                    name=model,
                    values=values(series.holding[:, i]),
                    paint=paints[model],
                    shape=Shape.AREA,
                )
                for i, model in enumerate(outcome.models)
                if series.holding[:, i].any()
            ],
        )
