"""What jobs cost, from the prices of devices."""

from collections.abc import Mapping

import numpy as np

from simulator.outcome import PolicyOutcome

Prices = Mapping[str, float]  #: device type -> of one for an hour


def cost_per_job(outcome: PolicyOutcome, prices: Prices) -> float | None:
    """Divide what the fleet costs by the jobs that were made; None if none was.

    It is paid while it is up, and as much an hour for what is made after the last arrival.
    """
    made_s = outcome.ended_s[~np.isnan(outcome.ended_s)]
    if not len(made_s):
        return None
    seen_s = len(outcome.series.demand) * outcome.series.stretch_s
    paid = sum(prices[kind] * seconds / 3600 for kind, seconds in outcome.up_s.items())
    return float(paid * max(1.0, made_s.max() / seen_s) / len(made_s))
