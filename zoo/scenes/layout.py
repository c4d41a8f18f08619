"""Place the figures of a scene."""

import math
from collections.abc import Sequence
from random import Random

from zoo.scenes.words import PLACES, SIDE, Relation

Point = tuple[float, float]


def _inside(value: float, radius: float) -> float:
    return min(max(value, radius + 1), SIDE - radius - 1)


def _clear(point: Point, radius: float, others: Sequence[tuple[Point, float]], gap: float) -> bool:
    for other, reach in others:  # noqa: SIM110 - most of the time of composing scenes goes here
        if math.dist(point, other) < (radius + reach) * 1.08 + gap:
            return False
    return True


def _scatter_once(rng: Random, radii: Sequence[float], gap: float) -> list[Point] | None:
    put: list[tuple[Point, float]] = []
    for radius in radii:
        low, high = radius + 1, SIDE - radius - 1
        point = (rng.uniform(low, high), rng.uniform(low, high))
        if not _clear(point, radius, put, gap):
            return None
        put.append((point, radius))
    return [point for point, _ in put]


def scatter(rng: Random, radii: Sequence[float], gap: float = 2.5) -> list[Point] | None:
    """Put figures anywhere without touching; None if they did not fit in 200 tries."""
    tries = (_scatter_once(rng, radii, gap) for _ in range(200))
    return next((points for points in tries if points is not None), None)


def at_place(rng: Random, place: str, radius: float, jitter: float) -> Point:
    """Put a figure near a named place."""
    x, y = PLACES[place]
    return (
        _inside(x + rng.uniform(-jitter, jitter), radius),
        _inside(y + rng.uniform(-jitter, jitter), radius),
    )


def related(rng: Random, relation: Relation, radii: tuple[float, float]) -> list[Point]:
    """Put two figures so that the first is left of, right of, above or below the second."""
    first_leads = relation in (Relation.LEFT_OF, Relation.ABOVE)
    lead, follow = radii if first_leads else radii[::-1]
    room = SIDE - 2 * (lead + follow)
    gap = rng.uniform(2.5, max(3.0, min(12.0, room - 2)))
    start = rng.uniform(1, max(1.01, room - gap - 1))
    near, far = start + lead, start + 2 * lead + gap + follow
    base = rng.uniform(20, 44)
    sides = [base + rng.uniform(-4, 4) for _ in range(2)]
    line = [(near, _inside(sides[0], lead)), (_inside(far, follow), _inside(sides[1], follow))]
    if relation in (Relation.ABOVE, Relation.BELOW):
        line = [(across, along) for along, across in line]
    return line if first_leads else line[::-1]


def in_a_row(rng: Random) -> list[Point]:
    """Put three figures in a row or a column, the first of them in the middle."""
    ends = [11.5, 52.5] if rng.random() < 0.5 else [52.5, 11.5]
    along = [value + rng.uniform(-1, 1) for value in (32.0, *ends)]
    across = [32 + rng.uniform(-7, 7) for _ in along]
    pairs = list(zip(along, across, strict=True))
    return pairs if rng.random() < 0.5 else [(b, a) for a, b in pairs]
