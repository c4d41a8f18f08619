"""Instances with a situation to roll out from."""

from dataclasses import replace

import numpy as np

from core.boards.demand import AskedJob
from core.levels.approximation import skipping
from core.levels.level import Level
from scheduler.allocation.problem import Demand, Instance
from scheduler.allocation.situation import Seat, Situation, WaitingImages

SLOW, HALF = Level(model="slow"), Level(model="slow", approximation=skipping(25))
FAST = Level(model="fast")
QUALITY = {SLOW.name: 1.0, HALF.name: 0.9, FAST.name: 0.7}
SECONDS = {SLOW.name: 4.0, HALF.name: 2.4, FAST.name: 1.0}


def a_seat(model: str | None, given: str | None = None, **facts: object) -> Seat:
    return replace(
        Seat(
            device_type="gpu",
            serves=model,
            given=given or model,
            holds=frozenset([model] if model else []),
            memory_gib=80.0,
        ),
        **facts,  # type: ignore[arg-type]
    )


def history(rate: float, seconds: int = 1800, seed: int = 0) -> tuple[float, ...]:
    """Draw arrivals at a constant rate."""
    drawn = np.random.default_rng(seed).poisson(rate, seconds)
    return tuple(float(jobs) for jobs in drawn)


def an_instance(
    *models: str,
    rate: float,
    load_s: float = 10.0,
    waiting: dict[str, WaitingImages] | None = None,
    seed: int = 0,
) -> Instance:
    """As many workers as models are named, each with its own; an SLO of 12 s."""
    return Instance(
        devices={"gpu": len(models)},
        levels=tuple(sorted((SLOW, HALF, FAST))),
        demands=(
            Demand(application="default", affinity="any", models=("fast", "slow"), rate=rate),
        ),
        tau={(name, "gpu"): seconds for name, seconds in SECONDS.items()},
        quality={("any", name): quality for name, quality in QUALITY.items()},
        worth={"slow": 1.0, "fast": 0.7},
        load={("gpu", "slow"): load_s, ("gpu", "fast"): load_s},
        gap=1e-6,
        situation=Situation(
            seats=tuple(a_seat(model) for model in models),
            history=history(rate, seed=seed),
            jobs={"default": (AskedJob(images=1, promised_s=12.0),)},
            waiting=waiting or {},
            steps={"slow": 50, "fast": 50},
            sizes={"slow": 5.0, "fast": 1.0},
        ),
    )
