"""Promise finish times to applications that have no SLO of their own. Pure."""

from collections.abc import Mapping

from core.boards.cost import Cost
from core.model import Model
from core.request.second_pass import SecondPass
from scheduler.routing.holders import guess
from scheduler.routing.route import best_model

SLO_FACTOR = 3.0  #: an application without an SLO is promised this many times the base model's time


def default_slo_s(
    models: Mapping[str, Model],
    costs: Mapping[str, Mapping[str, Cost]],
    *,
    steps: int | None = None,
    images: int = 1,
    second: SecondPass | None = None,
) -> float:
    """Promise three times what the base model takes alone on the fastest device (Argus §5.1).

    The base model is the best of `models`; None for `steps`: as many as it makes by default.
    """
    base = models[best_model(models, models)]
    steps = base.default_steps if steps is None else steps
    if second is not None:
        steps = round(steps * (1 + second.share(steps)))
    known = [row[base.name] for row in costs.values() if base.name in row] or [guess(base)]
    return SLO_FACTOR * min(images * cost.fixed_s + steps * cost.step_s(images) for cost in known)
