"""Promise finish times to applications that have no SLO of their own. Pure."""

from collections.abc import Mapping

from core.boards.cost import Cost
from core.model import Model
from scheduler.routing.holders import guess
from scheduler.routing.stations import Work

SLO_FACTOR = 3.0  #: an application without an SLO is promised this many times the base model's time


def default_slo_s(model: Model, costs: Mapping[str, Mapping[str, Cost]], work: Work) -> float:
    """Promise three times what the base model takes alone on the fastest device (Argus §5.1)."""
    known = [row[model.name] for row in costs.values() if model.name in row] or [guess(model)]
    return SLO_FACTOR * min(
        work.images * cost.fixed_s + work.steps * cost.step_s(work.images) for cost in known
    )
