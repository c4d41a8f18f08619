"""Choose which models that jobs wait for get a worker next, and for how long. Pure.

Models that nobody holds take turns: whichever has waited longest comes first, and a worker that a
model was given is left with it while jobs wait for that model, until the turn is over. So with W
workers that can hold any of M models that jobs wait for, a model has a worker after at most its
own patience and one turn of each ceil((M - 1) / W) others.
"""

from collections.abc import Collection, Mapping, Sequence

LONGEST_S = 30.0  #: a job may wait so long for a model that nobody holds,
LOADS = 10.0  #: or, if that is less, so many times as long as loading it takes,
SHORTEST_S = 5.0  #: and never less: what may move to another queue has gone by then
#: Times that loading takes, for which a worker keeps a model: at most half of its time is loading.
HELD = 2.0


def patience_s(load_s: float) -> float:
    """Say how long jobs wait for a model that nobody holds before others make room for it."""
    return min(LONGEST_S, max(SHORTEST_S, LOADS * load_s))


def turn_s(load_s: float) -> float:
    """Say how long a worker keeps a model that jobs wait for, from when it was given."""
    return max(HELD * load_s, patience_s(load_s))


def seated(models: Sequence[str], able: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Choose those models that can have a worker each at the same time, the first ones first.

    Args:
        models: in order of precedence.
        able: model -> workers that may be given it now.
    """
    holder: dict[str, str] = {}  # worker -> model

    def seat(model: str, tried: set[str]) -> bool:
        for worker in able.get(model, ()):
            if worker in tried:
                continue
            tried.add(worker)
            if worker not in holder or seat(holder[worker], tried):
                holder[worker] = model
                return True
        return False

    for model in models:
        seat(model, set())
    return frozenset(holder.values())
