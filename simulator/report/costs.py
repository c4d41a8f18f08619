"""What jobs cost, from the prices of devices."""

from collections.abc import Mapping

import numpy as np

from simulator.outcome import PolicyOutcome

Prices = Mapping[str, float]  #: device type -> of one for an hour


def cost_per_job(outcome: PolicyOutcome, prices: Prices) -> float | None:
    """Divide what the fleet costs while it is up by the jobs that were made; None if none was."""
    made = int((~np.isnan(outcome.ended_s)).sum())
    paid = sum(prices[kind] * seconds / 3600 for kind, seconds in outcome.up_s.items())
    return paid / made if made else None
