"""Outcomes made up, with every column that a report reads."""

import numpy as np

from simulator.outcome import PolicyOutcome, Series

LEVELS = ("sdxl@0", "sdxl@10", "sdxl@25", "tiny@0")
QUALITIES = np.array([1.0, 0.97, 0.9, 0.8])


def a_series(stretches: int, rng: np.random.Generator, stretch_s: float = 10.0) -> Series:
    demand = rng.poisson(8 + 5 * np.sin(np.arange(stretches) / 20))
    done = np.minimum(demand, rng.poisson(9, stretches))
    parts = rng.dirichlet((4.0, 3.0, 2.0, 1.0), stretches)
    holding = rng.dirichlet((6.0, 2.0), stretches) * 8
    nan = np.where(done == 0, np.nan, 1.0)
    return Series(
        stretch_s=stretch_s,
        demand=demand,
        done=done,
        late=rng.binomial(demand, 0.05),
        quality=rng.uniform(0.9, 1.0, stretches) * nan,
        goodput=np.where(demand == 0, np.nan, rng.uniform(0.8, 0.95, stretches)),
        levels=(parts * done[:, None]).astype(np.int64),
        loading=rng.uniform(0, 2, stretches),
        holding=holding,
        busy=rng.uniform(0.5, 0.9, stretches),
    )


def an_outcome(
    policy: str = "atelier", *, seed: int = 0, stretches: int = 120, slow: float = 1.0
) -> PolicyOutcome:
    rng = np.random.default_rng(seed)
    jobs = 8 * stretches
    at_s = np.sort(rng.uniform(0, 10.0 * stretches, jobs))
    taken = rng.gamma(4.0, 1.2 * slow, jobs)
    level = rng.choice(len(LEVELS), jobs, p=(0.5, 0.3, 0.15, 0.05)).astype(np.int16)
    ended_s = np.where(rng.random(jobs) < 0.01, np.nan, at_s + taken)
    return PolicyOutcome(
        policy=policy,
        seed=seed,
        levels=LEVELS,
        models=("sdxl", "tiny"),
        at_s=at_s,
        slo_s=np.full(jobs, 12.6),
        ended_s=ended_s,
        level=level,
        quality=np.where(np.isnan(ended_s), np.nan, QUALITIES[level]),
        was_refused=np.isnan(ended_s),
        was_canceled=np.zeros(jobs, bool),
        loads=int(12 * slow),
        up_s={"h200": 8 * 10.0 * stretches},
        busy_s={"h200": 6 * 10.0 * stretches},
        plans=(),
        series=a_series(stretches, rng),
    )
