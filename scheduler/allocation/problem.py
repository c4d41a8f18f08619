"""Input and output of an allocation policy: `Instance` and `Allocation`. Pure data.

A policy takes an `Instance` and gives an `Allocation`; what lies between is its own business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.levels.level import Level
from scheduler.allocation.situation import Situation

Slot = tuple[str, str]  #: device type, model


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Prompts of one class that may be served in the same ways: W_q H_qc."""

    application: str
    affinity: str
    models: tuple[str, ...]  #: that may serve it, sorted
    levels: frozenset[str] | None = None  #: of these models, that may serve it; None: all
    too_slow: frozenset[tuple[str, str]] = frozenset()  #: level, device type: not there
    is_exact: bool = False  #: exact levels of the one model in `models`: it needs no PASM row
    is_full: bool = False  #: no level that goes on from latents, of any of `models`
    is_placed: bool = False  #: waits on a queue already, so it needs no PASM row
    rate: float  #: jobs of default size per second

    def may_take(self, level: Level) -> bool:
        """Tell whether its prompts may be served at a level, as far as approximation goes."""
        if self.is_exact:
            return level.is_exact
        return not (self.is_full and level.approximation.needs_latents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What each shortcoming of an allocation costs, where perfect quality for all earns 1."""

    unserved: float = 20.0  #: P, if nobody is served: quality gives way before prompts wait
    stranded: float = 50.0  #: a model without a worker that jobs have waited for too long
    named: float = 25.0  #: a model without a worker that alone may serve some prompts
    loading: float = 0.01  #: S, if the whole fleet loads for all of `load_horizon_s`
    load_horizon_s: float = 60.0  #: T: a load pays off over this long
    idle: float = 1e-3  #: e, that the best model on every worker earns


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One problem: the fleet, what is asked of it, and what things cost."""

    devices: Mapping[str, int]  #: type -> workers, N_t
    levels: tuple[Level, ...]  #: available now, sorted
    demands: tuple[Demand, ...]
    tau: Mapping[tuple[str, str], float]  #: level, type -> seconds of a worker one job takes
    quality: Mapping[tuple[str, str], float]  #: class, level -> [0, 1]
    worth: Mapping[str, float]  #: model -> quality over all prompts, in [0, 1]
    load: Mapping[Slot, float]  #: seconds to load; a slot that is missing does not fit
    #: workers that may be given the model, where not all of the type can hold it
    able: Mapping[Slot, int] = field(default_factory=dict)
    held: Mapping[Slot, int] = field(default_factory=dict)  #: workers that hold the model now
    empty: Mapping[str, int] = field(default_factory=dict)  #: type -> workers that hold nothing
    settling: Mapping[Slot, int] = field(default_factory=dict)  #: of these, not to be moved yet
    stranded: frozenset[str] = frozenset()  #: models that jobs have waited for too long
    situation: Situation | None = None  #: for policies that look ahead
    prices: Prices = Prices()
    rho: float = 0.9  #: target utilisation
    gap: float = 1e-3  #: gap to stop at, relative or absolute, whichever is reached first
    limit_s: float = 20.0  #: of a search that its nodes do not end, on a busy host

    @property
    def num_devices(self) -> int:
        """Count the workers of all types."""
        return sum(self.devices.values())

    @property
    def slots(self) -> tuple[Slot, ...]:
        """List what some worker could hold, sorted."""
        return tuple(sorted(slot for slot in self.load if self.devices.get(slot[0], 0) > 0))

    def most(self, slot: Slot) -> int:
        """Say how many workers may hold a model, at most."""
        return self.able.get(slot, self.devices[slot[0]])

    def levels_of(self, demand: Demand) -> tuple[Level, ...]:
        """List the levels that may serve a demand, sorted."""
        return tuple(
            level
            for level in self.levels
            if level.model in demand.models
            and demand.may_take(level)
            and (demand.levels is None or level.name in demand.levels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How much of one demand row is served at one level on one device type."""

    demand: int  #: index into the instance's demands
    level: str
    device_type: str
    rate: float  #: jobs/s


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """An answer to an instance."""

    counts: Mapping[Slot, int]  #: n
    flows: tuple[Flow, ...]  #: g, positive ones
    unserved: tuple[float, ...]  #: u, by demand row, jobs/s
    objective: float | None = None  #: of the program that was solved; None if there was none
    bound: float | None = None  #: no allocation has a higher objective
    #: workers that the flows are for, while some load; None: `counts`
    serving: Mapping[Slot, int] | None = None
    is_joint: bool = False  #: flows are the best for these workers, so they may be solved again
    #: mean quality of what is made until the next plan, as a rollout has it; None: there was none
    expected: float | None = None
    reason: str = ""  #: why these counts, for who reads the plan

    @property
    def gap(self) -> float | None:
        """How far the bound is above, relative or absolute, the lesser; None without a program."""
        if self.objective is None or self.bound is None:
            return None
        return (self.bound - self.objective) / max(1.0, abs(self.objective))

    @property
    def models(self) -> frozenset[str]:
        """The models whose workers the flows are for."""
        return frozenset(model for (_, model), count in self.served_by.items() if count)

    @property
    def served_by(self) -> Mapping[Slot, int]:
        """Count the workers that the flows are for."""
        return self.counts if self.serving is None else self.serving

    @property
    def levels(self) -> dict[str, float]:
        """Add the flows of each level: F of Argus §4.3, jobs/s."""
        totals: dict[str, float] = {}
        for flow in self.flows:
            totals[flow.level] = totals.get(flow.level, 0.0) + flow.rate
        return dict(sorted(totals.items()))
