"""Say what becomes of each worker when a fleet is divided anew, and when. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from core.levels.level import exact_level
from scheduler.allocation.problem import Instance, Slot
from scheduler.allocation.rollout.compiled import Floats
from scheduler.allocation.rollout.inputs import Changes
from scheduler.allocation.rollout.tables import Tables
from scheduler.allocation.situation import Seat

LEAST_ROOM = 0.1  #: of workers that much waits for


class Transition(NamedTuple):
    """From what workers do now to what a candidate would have them do."""

    changes: Changes
    settled_s: float  #: until the last worker has loaded
    now: Mapping[Slot, int]  #: workers that serve each model until then


def transition(board: Tables, target: Mapping[Slot, int]) -> Transition:
    """Load as few models as a target allows, as `scheduler/allocation/assign` does.

    Args:
        target: workers of the rollout, by slot.
    """
    events: list[tuple[float, int, str | None]] = []
    now: dict[Slot, int] = {}
    for worker, model in enumerate(_assigned(board.seats, target)):
        seat = board.seats[worker]
        own = list(_events(board, seat, model))
        events += [(at, worker, after) for at, after in own]
        serves = next((after for at, after in reversed(own) if at <= 0), seat.serves)
        if serves is not None:
            slot = (seat.device_type, serves)
            now[slot] = now.get(slot, 0) + 1
    events.sort(key=lambda each: each[0])
    models = [-1 if after is None else board.models.index(after) for _, _, after in events]
    changes = Changes(
        at_s=np.array([at for at, _, _ in events], float),
        worker=np.array([worker for _, worker, _ in events], np.int64),
        model=np.array(models, np.int64),
    )
    return Transition(changes, events[-1][0] if events else 0.0, now)


def room(board: Tables, counts: Mapping[Slot, int], *, clears: bool = False) -> Floats:
    """Say how many seconds a second workers have for jobs that come, by slot.

    Args:
        clears: what waits for their model takes its part, as plans see it.
    """
    found = board.instance.rho * board.counts(counts).astype(float)
    waiting = [d for d in board.instance.demands if d.is_placed and clears]
    for demand in waiting:
        own = [slot for slot, n in counts.items() if n and slot[1] == demand.models[0]]
        for slot in own:
            taken = demand.rate / board.scale / len(own) * _alone_s(board, slot)
            at = board.slot(slot)
            found[at] = max(LEAST_ROOM * found[at], found[at] - taken)
    return found


def _alone_s(board: Tables, slot: Slot) -> float:
    return board.instance.tau.get((exact_level(slot[1]).name, slot[0]), 0.0)


def _assigned(seats: Sequence[Seat], target: Mapping[Slot, int]) -> list[str | None]:
    left = dict(target)
    given: list[str | None] = [None] * len(seats)

    def take(worker: int, model: str | None) -> None:
        slot = (seats[worker].device_type, model or "")
        if given[worker] is None and left.get(slot, 0) > 0:
            left[slot] -= 1
            given[worker] = model

    for worker, seat in enumerate(seats):
        take(worker, seat.given)
    for worker, seat in enumerate(seats):
        for model in sorted(seat.holds):
            take(worker, model)
    for worker, seat in enumerate(seats):
        for device_type, model in sorted(left):
            if device_type == seat.device_type:
                take(worker, model)
    return given


def _events(board: Tables, seat: Seat, model: str | None) -> list[tuple[float, str | None]]:
    """List when a worker goes over to which model; None while it serves nobody."""
    if model is None or (model == seat.serves and seat.given in (model, None)):
        return []
    is_loading = seat.ready_s > 0 and seat.given is not None
    before = [(seat.ready_s, seat.given)] if is_loading else []
    if model == seat.given and is_loading:
        return before
    if model in seat.holds:
        return [*before, (seat.ready_s if is_loading else 0.0, model)]
    begin = seat.ready_s if is_loading else 0.0
    held = seat.given if is_loading else seat.serves
    load_s = board.instance.load.get((seat.device_type, model), 0.0)
    sizes = board.situation.sizes
    fits = held and sizes.get(held, 0.0) + sizes.get(model, 0.0) <= seat.memory_gib
    away: list[tuple[float, str | None]] = [] if fits or held is None else [(begin, None)]
    return [*before, *away, (begin + load_s, model)]


def slots_of(instance: Instance, key: Sequence[int]) -> dict[Slot, int]:
    """Name the counts of a candidate."""
    return dict(zip(instance.slots, key, strict=True))
