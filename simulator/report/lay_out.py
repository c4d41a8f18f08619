"""Lay outcomes of policies out as a report for people."""

from collections.abc import Mapping

from reporting.chart import Chart
from reporting.document import Chapter, Document, KeyFigure
from reporting.palette import paint_of
from reporting.table import Cell, Column, Row, Table
from reporting.unit import COUNT, PER_THOUSAND, QUALITY, SECONDS, SHARE
from simulator.outcome import PolicyOutcome
from simulator.report.charts import (
    Named,
    latency,
    level_shares,
    levels_over_time,
    models_over_time,
    together,
)
from simulator.report.costs import Prices, cost_per_job

WORDS = {
    "goodput": "Quality of the jobs on time, added up, over all jobs asked for: a job that is late "
    "or refused counts 0.",
    "late": "Ended after its SLO, was refused, or never ended.",
    "quality": "Mean over the images made, relative to the best level of each prompt: 1 is as good "
    "as it gets.",
    "level": "A model, and how many of 50 steps are left out by going on from other latents.",
    "load": "A worker puts one model out of memory and takes another in.",
}


def lay_out(named: Named, run: Mapping[str, object], prices: Prices | None = None) -> Document:
    """Say what each policy delivered, the best first in words."""
    first = next(iter(named.values()))
    over_time = "One cursor moves over all figures: hover, touch, or arrow keys."
    return Document(
        title=f"Simulated load of {COUNT.write(float(len(first.at_s)))} jobs",
        answer=_answer(named),
        keys=_keys(named, prices),
        chapters=[
            Chapter(title="Policies", blocks=[_table(named, prices), level_shares(named)]),
            Chapter(title="Over time", about=over_time, blocks=[*together(named), latency(named)]),
            Chapter(title="Levels and models", blocks=_by_policy(named)),
        ],
        run=run,
        notes=WORDS,
    )


def _by_policy(named: Named) -> list[Chart]:
    pairs = zip(levels_over_time(named), models_over_time(named), strict=True)
    return [chart for pair in pairs for chart in pair]


def _ranked(named: Named) -> list[tuple[str, PolicyOutcome]]:
    return sorted(named.items(), key=lambda item: -item[1].goodput)


def _late(outcome: PolicyOutcome) -> float:
    asked = int(outcome.is_counted.sum())
    return float(outcome.was_late.sum()) / asked if asked else 0.0


def _answer(named: Named) -> str:
    (name, best), *others = _ranked(named)
    said = f"goodput {QUALITY.write(best.goodput)}, {SHARE.write(_late(best))} late"
    if not others:
        return f"{name} delivers {said}."
    other, second = others[0]
    return f"{name} delivers most: {said}. Next is {other}, {QUALITY.write(second.goodput)}."


def _keys(named: Named, prices: Prices | None) -> list[KeyFigure]:
    name, best = _ranked(named)[0]
    figures = best.figures()
    keys = [
        KeyFigure(title="Goodput", figure=QUALITY.write(best.goodput), about=name),
        KeyFigure(title="Late", figure=SHARE.write(_late(best)), about=name),
        KeyFigure(title="Quality", figure=QUALITY.write(_number(figures["quality"])), about=name),
        KeyFigure(title="p95", figure=SECONDS.write(best.latency_s(0.95)), about=name),
        KeyFigure(title="Loads", figure=COUNT.write(float(best.loads)), about=name),
    ]
    if prices:
        cost = PER_THOUSAND.write(cost_per_job(best, prices))
        keys.append(KeyFigure(title="1,000 jobs cost", figure=cost, about=name))
    return keys


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _table(named: Named, prices: Prices | None) -> Table:
    columns = [
        Column(title="goodput", unit=QUALITY, has_bar=True, is_best_high=True),
        Column(title="late", unit=SHARE, has_bar=True, is_best_high=False),
        Column(title="quality", unit=QUALITY, is_best_high=True),
        Column(title="p50", unit=SECONDS, is_best_high=False),
        Column(title="p95", unit=SECONDS, is_best_high=False),
        Column(title="p99", unit=SECONDS, is_best_high=False),
        Column(title="loads", unit=COUNT, is_best_high=False),
        Column(title="in use", unit=SHARE),
    ]
    if prices:
        columns.append(Column(title="cost", unit=PER_THOUSAND, about="of 1,000 jobs made"))
    paints = {name: paint_of(i) for i, name in enumerate(named)}
    rows = [
        Row(name=name, paint=paints[name], cells=_cells(outcome, prices))
        for name, outcome in _ranked(named)
    ]
    return Table(title="Beside each other", head="policy", columns=columns, rows=rows)


def _cells(outcome: PolicyOutcome, prices: Prices | None) -> list[Cell]:
    figures = outcome.figures()
    cells: list[Cell] = [outcome.goodput, _late(outcome), _number(figures["quality"])]
    cells += [outcome.latency_s(share) for share in (0.5, 0.95, 0.99)]
    cells += [float(outcome.loads), outcome.utilisation]
    return [*cells, cost_per_job(outcome, prices)] if prices else cells
