"""Benchmark the demand forecast against the mean of the last minute.

Arrivals like those of a microblog, which Argus (§5.1) and Proteus (§6.1) take for theirs: days
squeezed into hours, noise that wanders, spikes that rise in seconds and fade in minutes. Both
forecasters see each second's arrivals and say every ten seconds what the next ten bring. Even
who knew the true rate would be wrong by the chance of arrivals; that is the least error.

    python -m bench.demand --quick
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from bench.parts.report import Figure, at_most, finish, machine, median, plain
from core.boards.demand import Stream
from loadgen.arrivals.twitter import twitter_like
from scheduler.placement.placer import ArrivalCounts
from scheduler.planning.demand_aggregation import ForecastError

STREAM = Stream(application="default", models=("base",))
PERIOD_S = 10
MEAN = 340 / 60  #: requests/s: most minutes lie within the range of Argus' Fig. 17, 40 to 540

Rates = NDArray[np.float64]


class Minute:
    """The plain forecast: the mean of the last minute."""

    def __init__(self) -> None:
        self._counts: list[int] = []

    def see(self, count: int) -> None:
        self._counts.append(count)

    def rate(self) -> float:
        last = self._counts[-60:]
        return sum(last) / len(last)


def judge(rates: Rates, seed: int) -> dict[str, ForecastError]:
    """Let arrivals come at these rates, and judge who foresees them."""
    counts = np.random.default_rng(seed + 1).poisson(rates)
    window, minute = ArrivalCounts(), Minute()
    found = {name: ForecastError(kept=1.0) for name in ("ours", "minute", "rate known")}
    came = 0.0
    for second, count in enumerate(map(int, counts)):
        if second and second % PERIOD_S == 0:
            known = float(rates[second : second + PERIOD_S].mean())
            forecasts = (window.rates(second).get(STREAM, 0.0), minute.rate(), known)
            for hindsight, rate in zip(found.values(), forecasts, strict=True):
                hindsight.judge({"default": rate}, {"default": came}, second)
        for i in range(count):
            window.observe(STREAM, "any", 1.0, second + i / count)
        minute.see(count)
        came += count
    return found


def seconds_to_see(rate: float, factor: float, seed: int) -> float:
    """Let a steady rate jump, and wait until that is seen as a burst; 60 if it is not."""
    rng, window = np.random.default_rng(seed), ArrivalCounts()
    _arrive(window, rng, rate, 0.0, 120.0)
    window.note_plan(120.0)
    for tick in range(1, 121):
        now = 120.0 + tick / 2
        _arrive(window, rng, factor * rate, now - 0.5, now)
        if window.is_burst(now):
            return tick / 2
    return 60.0


def false_alarms(rate: float, hours: float, seed: int) -> int:
    """Count the bursts seen in a steady Poisson stream that is planned for every ten seconds."""
    rng, window, alarms = np.random.default_rng(seed), ArrivalCounts(), 0
    for tick in range(int(7200 * hours)):
        now = tick / 2
        _arrive(window, rng, rate, now, now + 0.5)
        is_burst = window.is_burst(now + 0.5)
        alarms += is_burst
        if is_burst or tick % (2 * PERIOD_S) == 0:
            window.note_plan(now + 0.5)
    return alarms


def _arrive(
    window: ArrivalCounts, rng: np.random.Generator, rate: float, since: float, until: float
) -> None:
    for at in np.sort(rng.uniform(since, until, rng.poisson(rate * (until - since)))):
        window.observe(STREAM, "any", 1.0, float(at))


def compare(seeds: Sequence[int], hours: float) -> dict[str, Figure]:
    """Set our forecast beside the plain one; medians over several draws."""
    curves = [twitter_like(3600 * hours, seed=seed).with_mean(MEAN) for seed in seeds]
    found = [judge(curve.per_s, seed) for curve, seed in zip(curves, seeds, strict=True)]
    ours, minute = [each["ours"] for each in found], [each["minute"] for each in found]
    pairs = list(zip(ours, minute, strict=True))
    return {
        "error, ours": plain(median([x.error for x in ours]), "of what came"),
        "error, last minute": plain(median([x.error for x in minute]), "of what came"),
        "error, if the rate were known": plain(
            median([each["rate known"].error for each in found]), "of what came"
        ),
        "missed, ours": plain(median([x.missed for x in ours]), "of what came"),
        "missed, last minute": plain(median([x.missed for x in minute]), "of what came"),
        "error, ours / last minute": at_most(median([a.error / b.error for a, b in pairs]), 1, ""),
        "missed, ours / last minute": at_most(
            median([a.missed / b.missed for a, b in pairs]), 0.9, ""
        ),
    }


def main(
    quick: Annotated[bool, typer.Option(help="An hour of three draws, not four of nine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The last line only.")] = False,
) -> None:
    """Measure forecasts. Example: `python -m bench.demand --quick`."""
    draws, hours = (3, 1.0) if quick else (9, 4.0)
    figures = compare(range(draws), hours)
    for rate in (1.0, 5.0):
        seen = [seconds_to_see(rate, 3.0, seed) for seed in range(20 if quick else 100)]
        name = f"rate tripled from {rate:g}/s, seen after"
        figures[name] = at_most(median(seen), PERIOD_S, "s, median")
        alarms = sum(false_alarms(rate, hours, seed) for seed in range(draws))
        figures[f"false alarms at {rate:g}/s"] = plain(alarms / draws / hours, "an hour")
    raise SystemExit(finish("demand", figures, where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
