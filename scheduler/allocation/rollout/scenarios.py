"""Draw futures of the arrivals: stretches of the past, flat ones, a spike, a dip. Pure.

What came after moments that looked like this one is the best guess of what comes now; but what has
not been seen yet may come as well, so a spike and a dip are always among the futures: the spike
weighs more where spikes have come often.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduler.allocation.rollout.compiled import Floats, Ints

ANALOGS = 6  #: stretches of the past, and one more for each more draw of the others
APART_S = 12  #: between the beginnings of two of them
STEP_S = 4  #: a stretch may begin so often
FRESH_S = 60  #: none begins in the first and in the last so many seconds
ENOUGH_S = 150  #: of history, before it is asked
LONG_S = 600  #: of history, after which it is trusted more than what might be
SPIKE, SPIKE_RISE_S, SPIKE_HOLD_S, SPIKE_FALL_S = 0.7, 8.0, 35.0, 30.0
DIP, DIP_FALL_S = 0.4, 20.0
OFTEN = 0.1  #: share of moments with a spike soon after, at which one is expected in full
UNSEEN = 0.2  #: part of that while too little is known of the past
LIKE = 1.5  #: as much arrived as now: to within this factor
FEW_S = 40  #: of such moments, fewer tell nothing
SELDOM = 0.1  #: part of that with which one is expected where none has been seen
LEAST = 0.05  #: jobs/s
UNJUDGED = (1.5, 1.0)  #: weights of the last 20 and 60 seconds, while too little is known
SKILL = 4  #: power of the error by which they are weighed later
#: Power of the rate of now, over that of a moment of the past, by which what came after it is
#: scaled: part of either is noise, and in full it brings a tenth more than really comes.
SCALED = 0.6
MOST_SCALED = 1.5  #: or so much less
UNLIKE = 2.0  #: power by which a stretch weighs less, the less it began like now
GRID = 1.15  #: forecasts are told apart by this factor


class Future(NamedTuple):
    """Arrivals that may come."""

    weight: float
    work: Floats  #: [H], jobs of each second


def futures(
    history: Floats, rate: float, horizon_s: int, rng: np.random.Generator, draws: int = 1
) -> list[Future]:
    """Draw futures, from what came lately and what came after moments like this one.

    Args:
        history: jobs of each second, oldest first.
        rate: jobs/s expected, for when nothing is known yet.
        draws: of each that is not a stretch of the past; they share its weight.
    """
    most = ANALOGS + draws - 1
    found = list(_alike(history, horizon_s, rng, most)) if len(history) > ENOUGH_S else []
    trust = 0.7 if found and len(history) >= LONG_S else 1.0
    short = _mean(history, 20) if len(history) else rate
    long = _mean(history, 60) if len(history) else rate
    seconds = np.arange(horizon_s)
    after = np.maximum(seconds - SPIKE_HOLD_S, 0.0)
    rise = np.minimum(1.0, seconds / SPIKE_RISE_S) * np.exp(-after / SPIKE_FALL_S)
    weigh_short, weigh_long = _steady(history, horizon_s)
    paths = [
        (weigh_short, np.full(horizon_s, short)),
        (weigh_long, np.full(horizon_s, long)),
        (0.7 * _often(history), short * (1 + SPIKE * rise)),
        (0.7, short * (1 - DIP * np.minimum(1.0, seconds / DIP_FALL_S))),
    ]
    drawn = [
        Future(trust * w / draws, _poisson(path, rng)) for w, path in paths for _ in range(draws)
    ]
    return found + drawn


def _steady(history: Floats, horizon_s: int) -> tuple[float, float]:
    """Weigh the means of the last 20 and 60 seconds by how near they came to what followed."""
    at = np.arange(FRESH_S, len(history) - horizon_s, STEP_S)
    if len(history) <= ENOUGH_S or not len(at):
        return UNJUDGED
    total = np.concatenate([[0.0], np.cumsum(history)])
    came = (total[at + horizon_s] - total[at]) / horizon_s
    short, long = ((total[at] - total[at - width]) / width for width in (20, 60))
    off = [max(LEAST, float(np.abs(each - came).mean())) ** -SKILL for each in (short, long)]
    return sum(UNJUDGED) * off[0] / sum(off), sum(UNJUDGED) * off[1] / sum(off)


def _alike(
    history: Floats, horizon_s: int, rng: np.random.Generator, most: int
) -> Iterator[Future]:
    """Find what came after moments like this one, at the rate of now."""
    base = max(LEAST, 0.5 * (_mean(history, 20) + _mean(history, 60)))
    for begin, off in _nearest(history, base, horizon_s, most):
        then = max(LEAST, 0.5 * (_mean(history[:begin], 20) + _mean(history[:begin], 60)))
        scale = min(MOST_SCALED, max(1 / MOST_SCALED, (base / then) ** SCALED))
        path = history[begin : begin + horizon_s] * scale
        missing = horizon_s - len(path)
        if missing:
            last = max(LEAST, float(path[-20:].mean()))
            path = np.concatenate([path, _poisson(np.full(missing, last), rng)])
        yield Future(math.exp(-UNLIKE * off), np.floor(path + rng.random(horizon_s)))


def _nearest(history: Floats, base: float, horizon_s: int, most: int) -> list[tuple[int, float]]:
    """Choose moments whose last 5, 20 and 60 seconds were like those of now; say how unlike."""
    moments = np.arange(FRESH_S, len(history) - 20, STEP_S)
    total = np.concatenate([[0.0], np.cumsum(history)])
    now = len(history)

    def mean(at: Ints, width: int) -> Floats:
        return np.asarray((total[at] - total[np.maximum(0, at - width)]) / width)

    def trend(at: Ints, width: int) -> Floats:
        return np.log((mean(at, width) + 0.15 * base) / (mean(at, 60) + 0.15 * base))

    here = np.array([now])
    off = 0.5 * np.abs(trend(moments, 5) - trend(here, 5))
    off += np.abs(trend(moments, 20) - trend(here, 20))
    off += np.abs(np.log((mean(moments, 60) + 0.1) / (mean(here, 60) + 0.1)))
    off += np.where(now - moments < horizon_s, 0.1, 0.0)
    chosen: list[tuple[int, float]] = []
    for i in np.argsort(off, kind="stable"):
        if all(abs(int(moments[i]) - other) >= APART_S for other, _ in chosen):
            chosen.append((int(moments[i]), float(off[i])))
        if len(chosen) == most:
            break
    return chosen


def _often(history: Floats) -> float:
    """Say how much a spike is to be expected, by how often one came: more than noise can be.

    What counts is what came when as much arrived as now: who has been at the height of a spike
    expects no other on top of it.
    """
    if len(history) < 2 * ENOUGH_S:
        return UNSEEN
    total = np.concatenate([[0.0], np.cumsum(history)])
    at = np.arange(60, len(history) - 60, STEP_S)
    level, now = (total[at] - total[at - 20]) / 20, _mean(history, 20)
    at = at[(level + LEAST > (now + LEAST) / LIKE) & (level + LEAST < (now + LEAST) * LIKE)]
    if len(at) * STEP_S < FEW_S:
        return UNSEEN
    before = np.maximum(total[at] - total[at - 60], 3 * (total[at] - total[at - 20])) / 2
    after = np.max([total[at + 15 * k + 30] - total[at + 15 * k] for k in range(3)], axis=0)
    spikes = after > (1 + SPIKE / 2) * before + 2 * np.sqrt(before + 1)
    return float(np.clip(spikes.mean() / OFTEN, SELDOM, 1.0))


def _mean(history: Floats, width: int) -> float:
    last = history[-width:]
    return float(last.mean()) if len(last) else 0.0


def _poisson(path: Floats, rng: np.random.Generator) -> Floats:
    return rng.poisson(np.maximum(path, LEAST)).astype(float)


def foreseen(history: Floats, work: Floats, rate: float, period_s: int) -> Floats:
    """Say what plans made every `period_s` in a future would expect, by second. [H] jobs/s."""
    seen = np.concatenate([history[-60:], work])
    total, first = np.concatenate([[0.0], np.cumsum(seen)]), len(seen) - len(work)
    at = np.arange(first, len(seen))
    long = (total[at] - total[np.maximum(0, at - 60)]) / np.maximum(1, np.minimum(at, 60))
    short = (total[at] - total[np.maximum(0, at - 15)]) / np.maximum(1, np.minimum(at, 15))
    expected = np.maximum(long, 0.97 * short)
    held = expected[(np.arange(len(work)) // period_s) * period_s]
    held[:period_s] = rate
    return np.asarray(np.maximum(held, LEAST), float)


def cells_of(rates: Floats) -> Ints:
    """Round rates to powers of the grid, so that few rows are needed."""
    return np.round(np.log(rates) / math.log(GRID)).astype(np.int64)
