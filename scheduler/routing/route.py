"""Route one prompt to a queue and level by the plan. Pure: no clock, no random, no I/O.

The scheduler routes by it, and so does the api when the scheduler does not answer. A row of the
plan is followed in smooth weighted round robin: a level is never more than one job ahead of its
share, however many prompts came, which coin flips would not give.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from core.application import DEFAULT
from core.boards.plan import Plan
from core.errors import NoPlan
from core.levels.level import Level
from core.model import Model
from core.placement import PlacedBy, Placement, PlacementQuery
from scheduler.routing.classify import ANY

ROUNDING = 1e-9  #: of sums of shares
_NEVER = (True, math.inf, math.inf)  #: less urgent than any level
MOST_RECENT = 256  #: queries, with their classes, whose row is at hand
MOST_CANDIDATES = 1000  #: answers of `candidates_of` that are remembered
MOST_ROWS = 10_000  #: of plans before, whose turns are remembered


class _Key(NamedTuple):
    """Jobs that take turns with each other."""

    application: str
    affinity: str
    models: tuple[str, ...]
    is_exact: bool
    is_full: bool  #: it may not go on from latents


def best_model(names: Iterable[str], models: Mapping[str, Model]) -> str:
    """Name the model of the highest quality; of equals the larger, then the last by name.

    One of unknown quality comes after all others.
    """
    return max(names, key=lambda name: (models[name].quality or 0.0, models[name].size_gib, name))


def candidates_of(query: PlacementQuery, models: Mapping[str, Model]) -> tuple[str, ...]:
    """List the models that may make what is asked for, sorted; an exact job has one."""
    known = {name for name in query.models or models if name in models}
    if query.exact and known:
        return (best_model(known, models),)
    return tuple(sorted(known))


class _Turns:
    """One row's weighted round robin over placements.

    A level may be taken once its share of all jobs so far is more than it had, and of these the
    one whose turn is over first is taken: earliest deadline first, which keeps every level less
    than one job from its share, ahead and behind. The plain rule, most credit first, lets a level
    of a long row fall behind by more.
    """

    def __init__(self, shares: Mapping[str, float], placements: Mapping[str, Placement]) -> None:
        self._levels = tuple(shares)
        self._shares = tuple(shares.values())
        self._placements = tuple(placements[level] for level in shares)
        self._credits = [0.0] * len(shares)  #: jobs that each is behind its share

    def inherit(self, other: "_Turns") -> None:
        """Go on where another row left off, so that rare prompts get their shares as well."""
        credits = dict(zip(other._levels, other._credits, strict=True))
        left = [credits.get(level, 0.0) for level in self._levels]
        owed = sum(left)  # by levels that are gone
        self._credits = [c - s * owed for c, s in zip(left, self._shares, strict=True)]

    def take(self, units: int) -> Placement:
        if len(self._shares) == 1:
            return self._placements[0]
        credits = self._credits
        turn, most_urgent = 0, _NEVER
        for i, share in enumerate(self._shares):
            credit = credits[i] = credits[i] + share * units
            jobs_left = (1.0 - credit) / share  # until it would be one job behind
            urgency = (credit <= ROUNDING, jobs_left, -credit)
            if urgency < most_urgent:
                turn, most_urgent = i, urgency
        credits[turn] -= units
        return self._placements[turn]


class Router:
    """Follows the current plan, prompt by prompt."""

    def __init__(
        self,
        plan: Plan,
        models: Mapping[str, Model],
        *,
        placed_by: PlacedBy = PlacedBy.SCHEDULER,
    ) -> None:
        self._models = models
        self._placed_by = placed_by
        self._old: dict[_Key, _Turns] = {}  #: of plans before
        self._rows: dict[_Key, _Turns] = {}
        #: by id of a query, which is kept alive here, and class
        self._recent: dict[tuple[int, str], tuple[PlacementQuery, _Turns]] = {}
        self._candidates: dict[tuple[tuple[str, ...], bool], tuple[str, ...]] = {}
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """Go over to another plan; each row's turns go on where they were."""
        self.plan = plan
        self._held = frozenset(plan.assignments.values())
        self._resident = frozenset(plan.resident)
        self._holdable = frozenset(model for row in plan.loads.values() for model in row)
        self._applications = frozenset(row.application for row in plan.pasm)
        self._pasm = {
            (row.application, row.affinity, row.models, row.is_full): row.shares
            for row in plan.pasm
        }
        # A row that is asked for under few plans goes on as well.
        kept = self._old if len(self._old) < MOST_ROWS else {}
        self._old, self._rows = {**kept, **self._rows}, {}
        self._recent.clear()

    def forget_models(self) -> None:
        """Look anew which models may make what is asked for: some have come, or gone."""
        self._candidates.clear()
        self._old, self._rows = {}, {}
        self._recent.clear()

    def is_held(self, model: str) -> bool:
        """Say whether some worker holds or is to hold a model."""
        return model in self._held

    def candidates(self, query: PlacementQuery) -> tuple[str, ...]:
        """Do what `candidates_of` does, once for all that ask for the same models."""
        asked = (query.models, query.exact)
        found = self._candidates.get(asked)
        if found is None:
            if len(self._candidates) >= MOST_CANDIDATES:
                self._candidates.clear()
            found = self._candidates[asked] = candidates_of(query, self._models)
        return found

    def route(self, query: PlacementQuery, affinity: str = ANY) -> Placement:
        """Place one job.

        Raises:
            NoPlan: no worker can hold a model that can make it.
        """
        known = self._recent.get((id(query), affinity))
        turns = known[1] if known is not None else self._turns(query, affinity)
        return turns.take(query.rows)

    def _turns(self, query: PlacementQuery, affinity: str) -> _Turns:
        """Find the row of a job; a caller may bring the same query again and again."""
        key = self._key(query, affinity)
        turns = self._rows.get(key)
        if turns is None:
            turns = self._rows[key] = self._open(key)
        if len(self._recent) >= MOST_RECENT:
            self._recent.clear()
        self._recent[id(query), affinity] = (query, turns)
        return turns

    def _key(self, query: PlacementQuery, affinity: str) -> _Key:
        named = query.application or DEFAULT
        application = named if named in self._applications else DEFAULT
        is_full = not query.can_resume
        return _Key(application, affinity, self.candidates(query), query.exact, is_full)

    def _open(self, key: _Key) -> _Turns:
        shares = self._shares(key)
        placements = {level: self._placement(level, key.affinity) for level in shares}
        turns = _Turns(shares, placements)
        if key in self._old:
            turns.inherit(self._old[key])
        return turns

    def _placement(self, level_name: str, affinity: str) -> Placement:
        level = Level.read(level_name)
        return Placement.on(level, affinity=affinity, placed_by=self._placed_by)

    def _shares(self, key: _Key) -> dict[str, float]:
        able = self._serving(key.models)
        if not able:
            return _alone(self._to_load(key.models))
        if key.is_exact:
            return _alone(able[0])
        for row in self._rows_for(key):
            if shares := _restrict(row, able):
                return shares
        return _alone(best_model(able, self._models))

    def _to_load(self, models: Sequence[str]) -> str:
        """Choose a model for jobs to wait for: the plan brings it because they do."""
        if able := self._holdable.intersection(models):
            return best_model(able, self._models)
        names = " or ".join(models) or "any model asked for"
        if not self._holdable:
            raise NoPlan(f"no worker is there to hold {names}")
        raise NoPlan(f"no worker can hold {names}: it has too little memory, or cannot load it")

    def _serving(self, models: Sequence[str]) -> Sequence[str]:
        """List models that workers serve now; if there are none, those that are to be held."""
        ready = [model for model in models if model in self._resident]
        return ready or [model for model in models if model in self._held]

    def _rows_for(self, key: _Key) -> Iterator[Mapping[str, float]]:
        """Give the rows that a job may follow, the one meant for it first, then the nearest."""
        for is_full in (True, False) if key.is_full else (False,):
            for models in (key.models, ()):
                row = self._pasm.get((key.application, key.affinity, models, is_full), {})
                yield _in_full(row) if key.is_full else row
        for (application, affinity, _, _), row in self._pasm.items():
            if (application, affinity) == (key.application, key.affinity):
                yield _in_full(row) if key.is_full else row
        yield _in_full(self.plan.levels) if key.is_full else self.plan.levels


def _alone(model: str) -> dict[str, float]:
    """Give one model everything, with nothing left out."""
    return {Level(model=model).name: 1.0}


def _in_full(row: Mapping[str, float]) -> dict[str, float]:
    """Share jobs among the same models, without what others left behind."""
    shares: dict[str, float] = {}
    for name, share in row.items():
        level = Level.read(name)
        own = level.exact if level.approximation.needs_latents else level
        shares[own.name] = shares.get(own.name, 0.0) + share
    return shares


def _restrict(row: Mapping[str, float], held: Iterable[str]) -> dict[str, float]:
    """Keep the levels of some models and normalise; empty if they have no share."""
    models = set(held)
    kept = {level: share for level, share in row.items() if Level.read(level).model in models}
    total = sum(kept.values())
    return {level: share / total for level, share in kept.items() if share > 0} if total else {}
