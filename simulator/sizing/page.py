"""Lay the answer to how many GPUs are needed out as a report for people."""

from collections.abc import Iterator, Mapping

import numpy as np

from loadgen.workload import Workload
from reporting.chart import Chart, Curve, Mark, Shape, Shares
from reporting.document import Block, Chapter, Document, KeyFigure
from reporting.palette import ramp
from reporting.table import Cell, Column, Row, Table
from reporting.unit import COUNT, MONEY, PER_MINUTE, PER_THOUSAND, QUALITY, SHARE, THIN
from simulator.sizing.answer import Sizing
from simulator.sizing.goal import FleetTrial, Verdict, name_of, price_of

STRETCHES = 96  #: of the load

WORDS = {
    "late": "Ended after the SLO, was refused, or never ended.",
    "quality": "Mean over the images made, relative to the best level of each prompt.",
    "confidence": "So sure are we that the mean over days like the given one keeps the bound "
    "(Student's t over the days). Days differ in when bursts come, not in how much comes: growth, "
    "and costs that were measured wrongly, are not in it.",
    "days like it": "The given day, and others put together from its own stretches, each taken "
    "from a moment at most three stretches away.",
    "least on paper": "What split workers that hold all models at once would cost. "
    "No fleet keeps the goal for less.",
    "level": "A model, and how many of 50 steps are left out by going on from other latents.",
}


def lay_out(answer: Sizing, workload: Workload, run: Mapping[str, object]) -> Document:
    """Say which fleet, what it costs, how sure that is, and what else was tried."""
    return Document(
        title="How many GPUs are needed",
        answer=sentence(answer),
        tone="good" if answer.best else "bad",
        warnings=list(_warnings(answer)),
        keys=list(_keys(answer)),
        chapters=[
            Chapter(title="Fleets", about=_about(answer), blocks=[_fleets(answer)]),
            Chapter(title="What images cost", blocks=list(_costs(answer))),
            Chapter(title="The load", blocks=[_load(workload, answer)]),
        ],
        run=run,
        notes=WORDS,
    )


def sentence(answer: Sizing) -> str:
    """Answer in a sentence or two."""
    goal, best = answer.goal, answer.best
    wanted = (
        f"{100 * (1 - goal.max_late):.4g}{THIN}% of the jobs within {answer.slo_s:g}{THIN}s "
        f"at a quality of {goal.min_quality:g}"
    )
    if best is None:
        helps = f" What would help: {'; '.join(answer.would_help)}." if answer.would_help else ""
        return f"No fleet keeps {wanted}: {answer.reason}.{helps}"
    price = MONEY.write(answer.price)
    return f"{name_of(best.fleet)} keeps {wanted}, for {price} an hour."


def _warnings(answer: Sizing) -> Iterator[str]:
    if answer.untried:
        yield (
            f"{answer.untried} cheaper fleets that might do as well were not tried: "
            "more --trials would tell."
        )
    if answer.best and len(answer.best.days) == 1:
        yield "One day was simulated: it says nothing of how much days differ. Take more --days."


def _keys(answer: Sizing) -> Iterator[KeyFigure]:
    if answer.best is None:
        return
    best, goal = answer.best, answer.goal
    sure = f"{goal.confidence:.0%} sure"
    yield KeyFigure(title="An hour", figure=MONEY.write(answer.price), about="of the whole fleet")
    yield KeyFigure(
        title="1,000 images",
        figure=PER_THOUSAND.write(answer.image_cost),
        about="idle time and all",
    )
    late, low = SHARE.write(best.late.high), QUALITY.write(best.quality.low)
    yield KeyFigure(
        title="Late, at most", figure=late, about=f"{sure}; {SHARE.write(best.late.middle)} seen"
    )
    yield KeyFigure(
        title="Quality, at least",
        figure=low,
        about=f"{sure}; {QUALITY.write(best.quality.middle)} seen",
    )
    used = float(np.mean([day.utilisation for day in best.days]))
    yield KeyFigure(title="Workers in use", figure=SHARE.write(used), about="of their time")
    yield KeyFigure(
        title="Least on paper", figure=MONEY.write(answer.least), about="an hour, for any fleet"
    )


def _about(answer: Sizing) -> str:
    if not answer.trials:
        return "None was tried."
    days = max(len(trial.days) for trial in answer.trials)
    return (
        f"Each was simulated over up to {days} days of load, fewer where one was enough to rule it "
        f"out. Ranges hold with {answer.goal.confidence:.0%} confidence on either side."
    )


def _fleets(answer: Sizing) -> Table:
    columns = [
        Column(title="price", unit=MONEY, about="an hour"),
        Column(title="verdict"),
        Column(title="late", unit=SHARE, bound=answer.goal.max_late),
        Column(title="quality", unit=QUALITY, bound=answer.goal.min_quality),
        Column(title="goodput", unit=QUALITY),
        Column(title="in use", unit=SHARE),
        Column(title="days", unit=COUNT),
    ]
    rows = [_fleet(trial, answer) for trial in answer.trials]
    about = "Cheapest first. The dotted line is what is wanted."
    return Table(title="What was tried", about=about, head="fleet", columns=columns, rows=rows)


def _fleet(trial: FleetTrial, answer: Sizing) -> Row:
    is_best = answer.best is not None and trial.fleet == answer.best.fleet
    verdict = f"{trial.verdict}: the cheapest" if is_best else trial.verdict.value
    cells: list[Cell] = [
        price_of(trial.fleet, answer.prices),
        verdict,
        trial.late,
        trial.quality,
        float(np.mean([day.goodput for day in trial.days])),
        float(np.mean([day.utilisation for day in trial.days])),
        float(len(trial.days)),
    ]
    tone = "good" if is_best else "" if trial.verdict is Verdict.KEEPS else "bad"
    return Row(name=name_of(trial.fleet), cells=cells, tone=tone)


def _costs(answer: Sizing) -> Iterator[Block]:
    shares = level_shares(answer.best) if answer.best else {}
    names = [*shares, *sorted(answer.image_costs.keys() - shares.keys())]
    columns = [Column(title="of the jobs", unit=SHARE, has_bar=True)]
    columns += [
        Column(title=kind, unit=PER_THOUSAND, about=f"at {price:g} an hour", is_best_high=False)
        for kind, price in answer.prices.items()
    ]
    rows = [
        Row(name=name, cells=[shares.get(name), *_costs_of(name, answer)])
        for name in names
        if answer.image_costs.get(name)
    ]
    yield Table(
        title="1,000 images by level",
        about="On a worker that is never idle; a dash: not within the SLO.",
        head="level",
        columns=columns,
        rows=rows,
    )
    if answer.best:
        yield Shares(
            title="Levels that jobs would get",
            about="On the cheapest fleet.",
            parts=ramp(list(shares)),
            rows={name_of(answer.best.fleet): shares},
        )


def _costs_of(level: str, answer: Sizing) -> list[float | None]:
    return [answer.image_costs[level].get(kind) for kind in answer.prices]


def level_shares(trial: FleetTrial) -> dict[str, float]:
    """Average over days which share of the jobs got each level, the most first."""
    total: dict[str, float] = {}
    for day in trial.days:
        for level, share in day.levels.items():
            total[level] = total.get(level, 0.0) + share / len(trial.days)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _load(workload: Workload, answer: Sizing) -> Chart:
    span_s = max(workload.duration_s, 1.0)
    edges = np.linspace(0.0, np.nextafter(span_s, np.inf), STRETCHES + 1)
    counts, _ = np.histogram(workload.at_s, edges, weights=workload.images.astype(np.float64))
    rates = counts / (edges[1] - edges[0])
    curve = Curve(
        name="images asked", values=[float(r) for r in rates], paint="c0", shape=Shape.AREA
    )
    return Chart(
        name="load",
        title="Images asked for",
        about=f"{len(workload)} jobs. Dotted: what the fleet makes if all get one level.",
        x=[float(at) for at in edges[:-1]],
        unit=PER_MINUTE,
        curves=[curve],
        marks=list(_capacities(answer)),
    )


def _capacities(answer: Sizing) -> Iterator[Mark]:
    """Say what the fleet makes a second at the level that most jobs got, and at the fastest."""
    if answer.best is None:
        return
    rates: dict[str, float] = {}
    for level, costs in answer.image_costs.items():
        seconds = {kind: 3600 * cost / answer.prices[kind] for kind, cost in costs.items()}
        counts = answer.best.fleet
        rates[level] = sum(counts.get(kind, 0) / tau for kind, tau in seconds.items())
    most = list(level_shares(answer.best))[:1]
    for level in dict.fromkeys([*most, *sorted(rates, key=lambda name: -rates[name])[:1]]):
        if level in rates:
            yield Mark(at=rates[level], text=f"all at {level}")
