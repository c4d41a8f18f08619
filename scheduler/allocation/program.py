"""The MILP that joins the papers' allocation problems, by the names of its formulation.

Pure: one thread, a fixed seed and a limit of nodes, so the same instance gives the same allocation,
unless the host is so busy that the limit in seconds ends the search.

Sets: device types t, models m, levels l of model m(l), demand rows d. A demand row is W_q H_qc:
one application q, one affinity class c, one set of levels that may serve it.

    max   1/W sum Q_cl g_dlt                    mean quality of what is asked for
          - P/W sum u_d                         share of it that nobody serves
          - sum C_m miss_m                      over models that somebody needs: stranded > named
          - S/(T N) sum L_tm loads_tm           share of the fleet's time spent loading
          + e/N sum Q_m n_tm                    idle workers hold the best model that is in time
    s.t.  sum_lt g_dlt + u_d = W_d              every prompt is served or counted as unserved
          sum_{d, l of m} tau_lt g_dlt <= rho n_tm   time on the workers that hold m
          sum_m n_tm = N_t,  n_tm integer       each worker holds one model
          n_tm >= settling_tm                   a worker that is loading is left to finish
          n_tm <= able_tm                       some may be unable to load it
          loads_tm >= n_tm - held_tm - first_tm
          sum_m first_tm <= empty_t             who holds nothing has to load something
          miss_m >= 1 - sum_t n_tm              a model that somebody needs has a worker
          g, u, loads, first, miss >= 0

The products of the papers (x y of Argus Eq. 1 and Proteus Eq. 3) are flows here, so it is linear;
identical workers are counted, so it grows with device types and not with devices. The slack u
makes it feasible under any demand and is the saturation signal. P >> Q, so quality gives way
before prompts wait; C > P + Q, so a model that alone may serve some prompts (named by a client, or
left by an application's limits) is dropped only where there are fewer workers than such models,
and then models take turns: one that jobs have waited for too long goes before
the others.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property

from ortools.math_opt.solvers import highs_pb2

from core.errors import AllocationError
from scheduler.allocation.linear_program import Effort, LinearProgram, Solution, Variable
from scheduler.allocation.problem import Allocation, Flow, Instance, Slot

Range = tuple[int, int]  #: least, most

#: Nodes after which the search ends: a second or two of work where rows are many. It is a limit of
#: work, so a busy host finds what an idle one does; the limit in seconds is a last resort.
MOST_NODES = 100
BRANCHED_DEVICES = 64  #: up to so many good counts are found by branching alone


class Program:
    """The program of one instance, by the names of the formulation."""

    def __init__(self, instance: Instance, *, within: Mapping[Slot, Range] | None = None) -> None:
        """Write it down.

        Args:
            within: bounds of n closer than those of the instance; both ends belong to them.
        """
        self._of = instance
        self._within = within or {}
        self._model = LinearProgram("atelier")
        self._levels = [instance.levels_of(demand) for demand in instance.demands]
        self._rows = [i for i, d in enumerate(instance.demands) if d.rate > 0]
        self._total = sum(instance.demands[i].rate for i in self._rows) or 1.0
        self._add_counts()
        self._add_flows()
        self._add_coverage()
        self._set_objective()

    def solve(self, *, limit_s: float) -> Allocation:
        """Find the best allocation, up to the instance's gap or until the limit.

        Units:  jobs/s; quality in [0, 1]
        Raises: AllocationError if the solver finds no allocation.
        """
        result = self._run(limit_s)
        values = result.values
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
            objective=result.objective,
            bound=result.bound,
            is_joint=True,
        )

    def relax(self) -> tuple[dict[Slot, float], float]:
        """Solve it with workers that can be split: milliseconds, whatever the fleet.

        Returns: n, and the objective, which no allocation exceeds.
        Raises: AllocationError if there is no answer even so.
        """
        self._bound(is_whole=False)
        result = self._run(self._of.limit_s)
        return {slot: result.values[n] for slot, n in self._n.items()}, result.objective

    def limit(self, within: Mapping[Slot, Range]) -> None:
        """Look for whole workers within other bounds from now on."""
        self._within = within
        self._bound(is_whole=True)

    def _bound(self, *, is_whole: bool) -> None:
        for slot, n in self._n.items():
            self._model.limit(n, *self._range(slot), is_whole=is_whole)

    def _run(self, limit_s: float) -> Solution:
        effort = Effort(
            gap=self._of.gap, limit_s=limit_s, nodes=MOST_NODES, options=self._options()
        )
        try:
            return self._model.solve(effort)
        except AllocationError as error:
            raise AllocationError(
                f"no allocation of {self._of.num_devices} workers: {error}"
            ) from error

    def _options(self) -> highs_pb2.HighsOptionsProto:
        """Choose how HiGHS searches: it refuses the common `threads` and takes its own.

        Restarts and, in small fleets, heuristics took a fifth of the time and found nothing. Where
        every count is given, jumps to feasible points took half of it, to find what the root has.
        """
        is_given = all(least == most for least, most in self._within.values())
        is_small = self._of.num_devices <= BRANCHED_DEVICES
        return highs_pb2.HighsOptionsProto(
            string_options={"parallel": "off"},
            int_options={"threads": 1, "random_seed": 0},
            bool_options={
                "mip_allow_restart": False,
                "mip_heuristic_run_feasibility_jump": not (self._within and is_given),
            },
            double_options={"mip_heuristic_effort": 0.0 if is_small else 0.05},
        )

    def _add_counts(self) -> None:
        self._n = {slot: self._count(slot) for slot in self._of.slots}
        self._loads = {}
        first: dict[str, list[Variable]] = {}
        for slot, n in self._n.items():
            loads, first_load = self._model.variable(), self._model.variable()
            held = float(self._of.held.get(slot, 0))
            self._model.row([(loads, 1.0), (n, -1.0), (first_load, 1.0)], least=-held)
            self._loads[slot] = loads
            first.setdefault(slot[0], []).append(first_load)
        for t, some in first.items():
            self._model.row(_sum(some), most=float(self._of.empty.get(t, 0)))
        for t, count in sorted(self._of.devices.items()):
            if fitting := [n for slot, n in self._n.items() if slot[0] == t]:
                self._model.row(_sum(fitting), least=float(count), most=float(count))

    def _count(self, slot: Slot) -> Variable:
        return self._model.whole(*self._range(slot))

    def _range(self, slot: Slot) -> Range:
        widest = self._of.settling.get(slot, 0), self._of.most(slot)
        return self._within.get(slot, widest)

    def _add_flows(self) -> None:
        types: dict[str, list[str]] = {}
        for t, model in self._n:
            types.setdefault(model, []).append(t)
        self._g = {
            (i, level.name, t): self._model.variable()
            for i in self._rows
            for level in self._levels[i]
            for t in types.get(level.model, ())
            if (level.name, t) not in self._of.demands[i].too_slow
        }
        self._u = {i: self._model.variable() for i in self._rows}
        served: dict[int, list[Variable]] = {i: [] for i in self._rows}
        busy: dict[Slot, list[tuple[Variable, float]]] = {slot: [] for slot in self._n}
        model_of = {level.name: level.model for level in self._of.levels}
        for (i, level_name, t), g in self._g.items():
            served[i].append(g)
            busy[t, model_of[level_name]].append((g, self._of.tau[level_name, t]))
        for i in self._rows:
            rate = self._of.demands[i].rate
            self._model.row(_sum([*served[i], self._u[i]]), least=rate, most=rate)
        for slot, terms in busy.items():
            if terms:
                self._model.row([*terms, (self._n[slot], -self._of.rho)], most=0.0)

    def _add_coverage(self) -> None:
        """A model that nobody needs now is worth no worker of its own: each splits a queue."""
        self._miss = {}
        for m in sorted({model for _, model in self._n} & self._needs.keys()):
            miss = self._model.variable()
            held = [n for slot, n in self._n.items() if slot[1] == m]
            self._model.row(_sum([miss, *held]), least=1.0)
            self._miss[m] = miss

    def _set_objective(self) -> None:
        fleet, prices = self._of.num_devices or 1, self._of.prices
        demands = self._of.demands
        worth = {
            g: self._of.quality[demands[i].affinity, level] / self._total
            for (i, level, _), g in self._g.items()
        }
        idle = {
            n: prices.idle / fleet * self._of.worth[slot[1]]
            for slot, n in self._n.items()
            if self._is_in_time(slot)
        }
        unserved = dict.fromkeys(self._u.values(), -(prices.unserved / self._total))
        missing = {miss: -self._needs[m] for m, miss in self._miss.items()}
        loading = {
            loads: -(prices.loading / prices.load_horizon_s / fleet * self._of.load[slot])
            for slot, loads in self._loads.items()
        }
        self._model.maximize(worth | idle | unserved | missing | loading)

    def _is_in_time(self, slot: Slot) -> bool:
        """Tell whether a worker keeps the promise of somebody whom its model may serve.

        Its queue is one for all types: an idle worker that is too slow would take what others make
        in time.
        """
        device_type, model = slot
        asked = [
            (level.name, device_type) in demand.too_slow
            for demand, levels in zip(self._of.demands, self._levels, strict=True)
            for level in levels
            if level.model == model
        ]
        return not asked or not all(asked)

    @cached_property
    def _needs(self) -> dict[str, float]:
        """Price the models that somebody needs, if they have no worker."""
        prices = self._of.prices
        able = [{x.model for x in self._levels[i]} for i in self._rows]
        named = {model for models in able if len(models) == 1 for model in models}
        stranded = dict.fromkeys(self._of.stranded, prices.stranded)
        return dict.fromkeys(named, prices.named) | stranded


def _sum(variables: Iterable[Variable]) -> list[tuple[Variable, float]]:
    return [(variable, 1.0) for variable in variables]
