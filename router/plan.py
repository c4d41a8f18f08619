"""Plan over cells: which share of each home's jobs other cells make. Pure.

    max   sum_c V_c(sum_h x_hc) - MOVED sum_{h != c} x_hc
    s.t.  sum_c x_hc = D_h,  x >= 0

V_c is the concave curve that cell c publishes. Jobs are moved from the cell where the last one is
worth least to the one where one more is worth most, as long as that gains more than leaving home
costs: what a home has at hand, such as latents and recordings, is not elsewhere.
"""

from collections.abc import Mapping

from core.cells.capacity import CellCapacity

#: Quality that a job must gain to leave its home.
MOVED = 0.05
#: Jobs a second that are not worth a move.
LEAST = 1e-9

Shares = Mapping[str, Mapping[str, float]]  #: home -> cell -> share of its jobs; sums to one


def plan_shares(capacities: Mapping[str, CellCapacity], demand: Mapping[str, float]) -> Shares:
    """Divide the jobs of each home among the cells.

    Units:  demand in jobs/s, by home; homes that have no capacity published keep their jobs
    """
    rows = {home: {home: rate} for home, rate in demand.items()}
    total = dict.fromkeys(capacities, 0.0) | dict(demand)
    while (move := _best_move(capacities, rows, total)) is not None:
        home, cell, rate = move
        rows[home][home] -= rate
        rows[home][cell] = rows[home].get(cell, 0.0) + rate
        total[home] -= rate
        total[cell] += rate
    return {home: _as_shares(home, row) for home, row in rows.items()}


def value(capacities: Mapping[str, CellCapacity], rows: Mapping[str, Mapping[str, float]]) -> float:
    """Tell what a division is worth: quality a second, less what moves cost."""
    gained = 0.0
    for cell, capacity in capacities.items():
        left = sum(row.get(cell, 0.0) for row in rows.values())
        for segment in capacity.segments:
            gained += segment.worth * min(left, segment.rate)
            left = max(0.0, left - segment.rate)
    moved = sum(rate for home, row in rows.items() for cell, rate in row.items() if cell != home)
    return gained - MOVED * moved


def _best_move(
    capacities: Mapping[str, CellCapacity],
    rows: Mapping[str, Mapping[str, float]],
    total: Mapping[str, float],
) -> tuple[str, str, float] | None:
    """Find the move that gains most for each job, and how many it may take."""
    ends = {home: _last(capacities[home], total[home]) for home in rows if home in capacities}
    givers = [home for home in ends if rows[home][home] > LEAST and ends[home][1] > LEAST]
    places = {cell: _next(capacity, total[cell]) for cell, capacity in capacities.items()}
    takers = [cell for cell, (_, room) in places.items() if room > LEAST]
    if not givers or not takers:
        return None
    giver = min(givers, key=lambda home: (ends[home][0], home))
    taker = max(takers, key=lambda cell: (places[cell][0], cell))
    if giver == taker or places[taker][0] - ends[giver][0] <= MOVED:
        return None
    return giver, taker, min(rows[giver][giver], ends[giver][1], places[taker][1])


def _last(capacity: CellCapacity, rate: float) -> tuple[float, float]:
    """Tell what the last jobs of so many a second are worth, and how many those are."""
    began = 0.0
    for segment in capacity.segments:
        if rate <= began + segment.rate + LEAST:
            return segment.worth, rate - began
        began += segment.rate
    return 0.0, rate - began


def _next(capacity: CellCapacity, rate: float) -> tuple[float, float]:
    """Tell what jobs beside so many a second are worth, and for how many there is room."""
    end = 0.0
    for segment in capacity.segments:
        end += segment.rate
        if rate < end - LEAST:
            return segment.worth, end - rate
    return 0.0, 0.0


def _as_shares(home: str, row: Mapping[str, float]) -> Mapping[str, float]:
    whole = sum(row.values())
    return {cell: rate / whole for cell, rate in row.items()} if whole > 0 else {home: 1.0}
