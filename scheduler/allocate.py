"""How many workers of each type hold which model, and which levels serve whom?

One mixed-integer linear program for all of it (Argus Eq. 1 and 2, Proteus Eq. 1-7). Pure: one
thread and a fixed seed, so the same instance gives the same allocation.

Sets: device types t, models m, levels l of model m(l), demand rows d. A demand row is W_q H_qc:
one application q, one affinity class c, one set of models that may serve it.

    max   1/W sum Q_cl g_dlt                    mean quality of what is asked for
          - P/W sum u_d                         share of it that nobody serves
          - sum C_m miss_m                      C_m: stranded > named > the others
          - S/(T N) sum L_tm loads_tm           share of the fleet's time spent loading
          + e/N sum Q_m n_tm                    idle workers hold the best model
    s.t.  sum_lt g_dlt + u_d = W_d              every prompt is served or counted as unserved
          sum_{d, l of m} tau_lt g_dlt <= rho n_tm   time on the workers that hold m
          sum_m n_tm = N_t,  n_tm integer       each worker holds one model
          n_tm >= settling_tm                   a worker that is loading is left to finish
          loads_tm >= n_tm - held_tm
          miss_m >= 1 - sum_t n_tm              a model that somebody names has a worker
          g, u, loads, miss >= 0

The products of the papers (x y) are flows here, so it is linear; identical workers are counted,
so it grows with device types and not with devices. The slack u makes it feasible under any
demand and is the saturation signal. P >> Q, so quality gives way before prompts wait; C > P + Q,
so a named model is dropped only where there are fewer workers than named models, and then models
take turns: one that jobs have waited for too long goes before the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from ortools.math_opt.python import mathopt
from ortools.math_opt.solvers import highs_pb2

from core.errors import AllocationError
from core.variant import Level

UNSERVED = 20.0  #: P
STRANDED = 50.0  #: C of a model that jobs have waited for too long
NAMED = 25.0  #: C of a model that prompts ask for by name
UNNAMED = 0.01  #: C of a model of the catalogue that nobody asks for by name
LOADING = 0.01  #: S
LOAD_HORIZON_S = 60.0  #: T: a load pays off over this long
IDLE = 1e-3  #: e

Slot = tuple[str, str]  #: device type, model


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Prompts of one class that may be served in the same ways: W_q H_qc."""

    application: str
    affinity: str
    models: tuple[str, ...]  #: that may serve it, sorted
    is_exact: bool = False  #: K = 0 only
    is_placed: bool = False  #: waits on a queue already, so it needs no PASM row
    rate: float  #: jobs of default size per second


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
    held: Mapping[Slot, int] = field(default_factory=dict)  #: workers that hold the model now
    settling: Mapping[Slot, int] = field(default_factory=dict)  #: of these, not to be moved yet
    stranded: frozenset[str] = frozenset()  #: models that jobs have waited for too long
    rho: float = 0.9  #: target utilisation
    gap: float = 1e-3  #: relative gap to stop at
    limit_s: float = 5.0  #: a guard; the gap is reached long before it


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
    objective: float
    bound: float  #: no allocation has a higher objective

    @property
    def models(self) -> frozenset[str]:
        """The models that some worker shall hold."""
        return frozenset(model for (_, model), count in self.counts.items() if count)

    @property
    def levels(self) -> dict[str, float]:
        """Add the flows of each level: F of Argus §4.3, jobs/s."""
        totals: dict[str, float] = {}
        for flow in self.flows:
            totals[flow.level] = totals.get(flow.level, 0.0) + flow.rate
        return dict(sorted(totals.items()))


def allocate(instance: Instance) -> Allocation:
    """Solve the program above, exactly up to `gap`.

    Units:  jobs/s; quality in [0, 1]
    Raises: AllocationError if the solver finds no allocation.
    """
    return _Program(instance).solve()


class _Program:
    """The program of one instance, by the names of the formulation."""

    def __init__(self, instance: Instance) -> None:
        self._of = instance
        self._model = mathopt.Model(name="atelier")
        self._rows = [i for i, d in enumerate(instance.demands) if d.rate > 0]
        self._total = sum(instance.demands[i].rate for i in self._rows) or 1.0
        self._add_counts()
        self._add_flows()
        self._add_coverage()
        self._set_objective()

    def solve(self) -> Allocation:
        result = self._run()
        values = result.variable_values()
        unserved = [0.0] * len(self._of.demands)
        for i, u in self._u.items():
            unserved[i] = max(0.0, values[u])
        return Allocation(
            counts={slot: round(values[n]) for slot, n in self._n.items()},
            flows=tuple(
                Flow(demand=i, level=level, device_type=t, rate=values[g])
                for (i, level, t), g in self._g.items()
                if values[g] > 1e-9 * self._total
            ),
            unserved=tuple(unserved),
            objective=result.objective_value(),
            bound=result.dual_bound(),
        )

    def _run(self) -> mathopt.SolveResult:
        params = mathopt.SolveParameters(
            relative_gap_tolerance=self._of.gap,
            time_limit=timedelta(seconds=self._of.limit_s),
            # HiGHS refuses the common `threads` parameter and takes its own.
            highs=highs_pb2.HighsOptionsProto(
                string_options={"parallel": "off"}, int_options={"threads": 1, "random_seed": 0}
            ),
        )
        try:
            result = mathopt.solve(self._model, mathopt.SolverType.HIGHS, params=params)
        except (AttributeError, RuntimeError, ValueError) as error:
            # AttributeError: how this wheel reports any error of the solver.
            raise AllocationError(f"the solver failed: {error}") from error
        if not result.has_primal_feasible_solution():
            raise AllocationError(f"no allocation: {result.termination.reason.name}")
        return result

    def _add_counts(self) -> None:
        self._n = {
            slot: self._model.add_integer_variable(
                lb=self._of.settling.get(slot, 0), ub=self._of.devices[slot[0]], name=f"n {slot}"
            )
            for slot in sorted(self._of.load)
            if self._of.devices.get(slot[0], 0) > 0
        }
        self._loads = {}
        for slot, n in self._n.items():
            loads = self._model.add_variable(lb=0.0)
            self._model.add_linear_constraint(loads >= n - self._of.held.get(slot, 0))
            self._loads[slot] = loads
        for t, count in sorted(self._of.devices.items()):
            if fitting := [n for slot, n in self._n.items() if slot[0] == t]:
                self._model.add_linear_constraint(mathopt.fast_sum(fitting) == count)

    def _add_flows(self) -> None:
        self._g = {
            (i, level.name, t): self._model.add_variable(lb=0.0)
            for i in self._rows
            for level in self._levels_for(self._of.demands[i])
            for t, model in self._n
            if model == level.model
        }
        self._u = {i: self._model.add_variable(lb=0.0) for i in self._rows}
        served: dict[int, list[mathopt.Variable]] = {i: [] for i in self._rows}
        busy: dict[Slot, list[mathopt.LinearTerm]] = {slot: [] for slot in self._n}
        model_of = {level.name: level.model for level in self._of.levels}
        for (i, level_name, t), g in self._g.items():
            served[i].append(g)
            busy[t, model_of[level_name]].append(self._of.tau[level_name, t] * g)
        for i in self._rows:
            whole = mathopt.fast_sum([*served[i], self._u[i]])
            self._model.add_linear_constraint(whole == self._of.demands[i].rate)
        for slot, terms in busy.items():
            if terms:
                room = self._of.rho * self._n[slot]
                self._model.add_linear_constraint(mathopt.fast_sum(terms) <= room)

    def _levels_for(self, demand: Demand) -> list[Level]:
        return [
            level
            for level in self._of.levels
            if level.model in demand.models and not (demand.is_exact and level.skipped_steps)
        ]

    def _add_coverage(self) -> None:
        self._miss = {}
        for m in sorted({model for _, model in self._n}):
            miss = self._model.add_variable(lb=0.0)
            held = mathopt.fast_sum([n for slot, n in self._n.items() if slot[1] == m])
            self._model.add_linear_constraint(miss >= 1 - held)
            self._miss[m] = miss

    def _set_objective(self) -> None:
        fleet = sum(self._of.devices.values()) or 1
        demands = self._of.demands
        quality = [
            self._of.quality[demands[i].affinity, level] / self._total * g
            for (i, level, _), g in self._g.items()
        ]
        unserved = [UNSERVED / self._total * u for u in self._u.values()]
        needs = self._needs()
        missing = [needs.get(m, UNNAMED) * miss for m, miss in self._miss.items()]
        loading = [
            LOADING / LOAD_HORIZON_S / fleet * self._of.load[slot] * loads
            for slot, loads in self._loads.items()
        ]
        idle = [IDLE / fleet * self._of.worth[m] * n for (_, m), n in self._n.items()]
        self._model.maximize(
            mathopt.fast_sum(quality + idle) - mathopt.fast_sum(unserved + missing + loading)
        )

    def _needs(self) -> dict[str, float]:
        demands = [self._of.demands[i] for i in self._rows]
        named = {demand.models[0] for demand in demands if len(demand.models) == 1}
        return dict.fromkeys(named, NAMED) | dict.fromkeys(self._of.stranded, STRANDED)
