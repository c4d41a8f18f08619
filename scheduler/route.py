"""Which queue and level does one prompt get? Pure: no clock, no random, no I/O.

The scheduler routes by it, and so does the api when the scheduler does not answer. A row of the
plan is followed in smooth weighted round robin: a level is never more than one job ahead of its
share, however many prompts came, which coin flips would not give.
"""

from collections.abc import Iterable, Mapping

from core.application import DEFAULT
from core.errors import NoPlan
from core.placement import PlacedBy, Placement, PlacementQuery, queue_of
from core.plan import Plan
from core.variant import Level, Model
from scheduler.classify import ANY

Key = tuple[str, str, tuple[str, ...], bool]  #: application, class, models, exact


def best_model(names: Iterable[str], models: Mapping[str, Model]) -> str:
    """Name the model of the highest quality; of equals the larger, then the last by name."""
    return max(names, key=lambda name: (models[name].quality, models[name].size_gib, name))


def candidates_of(query: PlacementQuery, models: Mapping[str, Model]) -> tuple[str, ...]:
    """List the models that may make what is asked for, sorted; an exact job has one."""
    known = {name for name in query.models or models if name in models}
    if query.exact and known:
        return (best_model(known, models),)
    return tuple(sorted(known))


def level_of(name: str) -> Level:
    """Read a level's name, `<model>@<skipped steps>`."""
    model, _, skipped_steps = name.rpartition("@")
    return Level(model=model, skipped_steps=int(skipped_steps))


class _Turns:
    """One row's smooth weighted round robin over placements."""

    def __init__(self, shares: Mapping[str, float], placements: Mapping[str, Placement]) -> None:
        self._levels = tuple(shares)
        self._shares = tuple(shares.values())
        self._placements = tuple(placements[level] for level in shares)
        self._credits = [0.0] * len(shares)

    def inherit(self, other: "_Turns") -> None:
        """Go on where another row left off, so that rare prompts get their shares as well."""
        credits = dict(zip(other._levels, other._credits, strict=True))
        self._credits = [credits.get(level, 0.0) for level in self._levels]

    def take(self, units: int) -> Placement:
        credits = self._credits
        if len(credits) > 1:
            for i, share in enumerate(self._shares):
                credits[i] += share * units
            turn = credits.index(max(credits))
            credits[turn] -= units
            return self._placements[turn]
        return self._placements[0]


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
        self._rows: dict[Key, _Turns] = {}
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """Go over to another plan; each row's turns go on where they were."""
        self.plan = plan
        self._held = frozenset(plan.assignments.values())
        self._applications = frozenset(row.application for row in plan.pasm)
        self._pasm = {(r.application, r.affinity, r.models): r.shares for r in plan.pasm}
        self._old, self._rows = self._rows, {}

    def is_held(self, model: str) -> bool:
        """Say whether some worker holds or is to hold a model."""
        return model in self._held

    def route(self, query: PlacementQuery, affinity: str = ANY) -> Placement:
        """Place one job.

        Raises:
            NoPlan: no worker holds or is to hold a model that can make it.
        """
        key = self._key(query, affinity)
        turns = self._rows.get(key)
        if turns is None:
            turns = self._rows[key] = self._open(key)
        return turns.take(query.rows)

    def _key(self, query: PlacementQuery, affinity: str) -> Key:
        named = query.application or DEFAULT
        application = named if named in self._applications else DEFAULT
        return (application, affinity, candidates_of(query, self._models), query.exact)

    def _open(self, key: Key) -> _Turns:
        shares = self._shares(key)
        turns = _Turns(shares, {level: self._placement(level, key[1]) for level in shares})
        if key in self._old:
            turns.inherit(self._old[key])
        return turns

    def _placement(self, level_name: str, affinity: str) -> Placement:
        level = level_of(level_name)
        return Placement(
            queue=queue_of(level.model),
            model=level.model,
            level=level.name,
            skipped_steps=level.skipped_steps,
            affinity=affinity,
            placed_by=self._placed_by,
        )

    def _shares(self, key: Key) -> dict[str, float]:
        application, affinity, candidates, is_exact = key
        held = [model for model in candidates if model in self._held]
        if not held:
            raise NoPlan(f"no worker holds {' or '.join(candidates) or 'any model asked for'}")
        if is_exact:
            return {Level(model=held[0]).name: 1.0}
        for row in (
            self._pasm.get((application, affinity, candidates), {}),
            self._pasm.get((application, affinity, ()), {}),
            self.plan.levels,
        ):
            if shares := _restrict(row, held):
                return shares
        return {Level(model=best_model(held, self._models)).name: 1.0}


def _restrict(row: Mapping[str, float], held: Iterable[str]) -> dict[str, float]:
    """Keep the levels of some models and normalise; empty if they have no share."""
    models = set(held)
    kept = {level: share for level, share in row.items() if level_of(level).model in models}
    total = sum(kept.values())
    return {level: share / total for level, share in kept.items() if share > 0} if total else {}
