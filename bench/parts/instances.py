"""Random allocation problems for benchmarks, reproducible by seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.levels.approximation import skipping
from core.levels.level import Level
from scheduler.allocation.problem import Demand, Instance
from scheduler.planning.pose import gap_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How large the instances of a kind are."""

    devices: int
    models: int  #: that may serve an application
    types: int = 1  #: of devices
    classes: int = 1
    applications: int = 1
    is_shared: bool = True  #: the same models serve every application
    skips: tuple[int, ...] = (0,)  #: every K


def draw(kind: Kind, seed: int, *, limit_s: float = 60.0) -> Instance:
    """Draw from light load to overload, with some of the models resident before.

    Quality grows with the time a level takes, a little differently for each class; applications
    are asked by Zipf's law (Proteus §6.1.3).
    """
    rng = random.Random(seed)
    types = [f"type-{i}" for i in range(kind.types)]
    models = {q: _models(kind, q) for q in range(kind.applications)}
    every = sorted({name for names in models.values() for name in names})
    levels = tuple(
        sorted(Level(model=name, approximation=skipping(k)) for name in every for k in kind.skips)
    )
    times = {name: rng.uniform(1.0, 4.5) for name in every}
    seconds = {x.name: times[x.model] * _share_of_time(x) for x in levels}
    slowness = {t: rng.uniform(1.0, 4.0) if i else 1.0 for i, t in enumerate(types)}
    devices = _split(kind.devices, types)
    classes = [f"class-{i}" for i in range(kind.classes)]
    return Instance(
        devices=devices,
        levels=levels,
        demands=_demands(rng, models, classes, _capacity(devices, slowness, seconds, models)),
        tau={
            (x.name, t): seconds[x.name] * slowness[t] * rng.uniform(0.9, 1.1)
            for x in levels
            for t in types
        },
        quality={
            (c, x.name): min(1.0, max(0.0, 0.6 + 0.08 * seconds[x.name] + rng.uniform(-0.1, 0.1)))
            for c in classes
            for x in levels
        },
        worth={name: 0.6 + 0.08 * times[name] for name in every},
        load={(t, name): rng.uniform(3.0, 10.0) for t in types for name in every},
        held={(t, name): devices[t] // len(every) for t in types for name in every},
        gap=gap_for(kind.devices),
        limit_s=limit_s,
    )


def _models(kind: Kind, application: int) -> tuple[str, ...]:
    prefix = "m" if kind.is_shared else f"q{application}-m"
    return tuple(f"{prefix}{i}" for i in range(kind.models))


def _share_of_time(level: Level) -> float:
    """Take a tenth of a job to be spent outside its steps."""
    return 1.0 - 0.9 * level.approximation.head_start


def _split(devices: int, types: Sequence[str]) -> dict[str, int]:
    return {t: devices // len(types) + (i < devices % len(types)) for i, t in enumerate(types)}


def _capacity(
    devices: Mapping[str, int],
    slowness: Mapping[str, float],
    seconds: Mapping[str, float],
    models: Mapping[int, tuple[str, ...]],
) -> float:
    """Estimate the jobs/s that the fleet ends with the fastest level of each application."""
    speed = sum(count / slowness[t] for t, count in devices.items())
    fastest = [
        min(s for name, s in seconds.items() if Level.read(name).model in names)
        for names in models.values()
    ]
    return 0.9 * speed * len(fastest) / sum(fastest)


def _demands(
    rng: random.Random,
    models: Mapping[int, tuple[str, ...]],
    classes: Sequence[str],
    capacity: float,
) -> tuple[Demand, ...]:
    weights = {(q, c): rng.random() / (q + 1) ** 1.001 for q in models for c in classes}
    load = rng.uniform(0.1, 1.2) * capacity / sum(weights.values())
    return tuple(
        Demand(application=f"q{q}", affinity=c, models=models[q], rate=load * weight)
        for (q, c), weight in weights.items()
    )
