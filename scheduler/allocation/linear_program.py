"""A linear program, with whole numbers or without, and its solver calls."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from ortools.math_opt import callback_pb2, model_parameters_pb2, model_pb2, result_pb2, solution_pb2
from ortools.math_opt.core.python import solver
from ortools.math_opt.python import mathopt
from ortools.math_opt.solvers import highs_pb2
from pybind11_abseil.status import StatusNotOk

from core.errors import AllocationError

Variable = int  #: number of a variable, in the order in which they came


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long and how far to search."""

    gap: float  #: relative or absolute, whichever is reached first
    limit_s: float
    nodes: int
    options: highs_pb2.HighsOptionsProto


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The best answer that was found."""

    values: Mapping[Variable, float]
    objective: float
    bound: float  #: no answer has a higher objective


class LinearProgram:
    """Variables, rows and an objective that is to be as high as it can be.

    It is written down as the library stores it, and its answer is read as that is stored: its own
    model takes a call for each factor, which took longer than solving what plans ask; and to read
    a model and an answer into such took a third of the time.
    """

    def __init__(self, name: str) -> None:
        """Begin with nothing."""
        self._proto = model_pb2.ModelProto(name=name)
        self._proto.objective.maximize = True

    def variable(self) -> Variable:
        """Add one that is not negative."""
        return self.whole(0.0, math.inf, is_whole=False)

    def whole(self, least: float, most: float, *, is_whole: bool = True) -> Variable:
        """Add one between two bounds, a whole number unless told otherwise."""
        variables = self._proto.variables
        number = len(variables.ids)
        variables.ids.append(number)
        variables.lower_bounds.append(least)
        variables.upper_bounds.append(most)
        variables.integers.append(is_whole)
        return number

    def limit(self, variable: Variable, least: float, most: float, *, is_whole: bool) -> None:
        """Give a variable other bounds."""
        variables = self._proto.variables
        variables.lower_bounds[variable], variables.upper_bounds[variable] = least, most
        variables.integers[variable] = is_whole

    def row(
        self,
        terms: Iterable[tuple[Variable, float]],
        *,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> None:
        """Keep a sum of different variables between two bounds."""
        rows, matrix = self._proto.linear_constraints, self._proto.linear_constraint_matrix
        number = len(rows.ids)
        rows.ids.append(number)
        rows.lower_bounds.append(least)
        rows.upper_bounds.append(most)
        known = [(variable, factor) for variable, factor in sorted(terms) if factor]
        matrix.row_ids.extend([number] * len(known))
        matrix.column_ids.extend([variable for variable, _ in known])
        matrix.coefficients.extend([factor for _, factor in known])

    def maximize(self, gains: Mapping[Variable, float]) -> None:
        """Say what one of each variable is worth."""
        known = [(variable, gain) for variable, gain in sorted(gains.items()) if gain]
        worth = self._proto.objective.linear_coefficients
        worth.Clear()
        worth.ids.extend([variable for variable, _ in known])
        worth.values.extend([gain for _, gain in known])

    def solve(self, effort: Effort) -> Solution:
        """Find the best answer.

        Raises: AllocationError if none is found.
        """
        try:
            result = solver.solve(
                self._proto,
                mathopt.SolverType.HIGHS.value,
                mathopt.StreamableSolverInitArguments().to_proto(),
                _parameters(effort).to_proto(),
                model_parameters_pb2.ModelSolveParametersProto(),
                None,
                callback_pb2.CallbackRegistrationProto(),
                None,
                None,
            )
        except (RuntimeError, StatusNotOk) as error:
            raise AllocationError(f"the solver failed: {error}") from error
        return _read(result)


def _read(result: result_pb2.SolveResultProto) -> Solution:
    """Take the best answer out of what the solver says.

    Raises: AllocationError if there is none.
    """
    found = [each.primal_solution for each in result.solutions[:1]]
    if not found or found[0].feasibility_status != solution_pb2.SOLUTION_STATUS_FEASIBLE:
        raise AllocationError(mathopt.TerminationReason(result.termination.reason).name)
    values = found[0].variable_values
    return Solution(
        values=dict(zip(values.ids, values.values, strict=True)),
        objective=found[0].objective_value,
        bound=result.termination.objective_bounds.dual_bound,
    )


def _parameters(effort: Effort) -> mathopt.SolveParameters:
    return mathopt.SolveParameters(
        relative_gap_tolerance=effort.gap,
        absolute_gap_tolerance=effort.gap,
        time_limit=timedelta(seconds=effort.limit_s),
        node_limit=effort.nodes,
        highs=effort.options,
    )
