"""Instances of the allocation that hypothesis draws."""

from hypothesis import strategies as st

from core.levels.approximation import skipping
from core.levels.level import Level
from scheduler.allocation.problem import Demand, Instance

MODELS = ("base", "small", "tiny")
TYPES = ("cpu", "gpu")
CLASSES = ("easy", "hard")
APPLICATIONS = ("avatars", "default")

fractions = st.floats(0.0, 1.0, allow_nan=False)
seconds = st.floats(0.05, 5.0, allow_nan=False)


@st.composite
def demands(draw: st.DrawFn, fewest_models: int = 1) -> Demand:
    models = draw(st.sets(st.sampled_from(MODELS), min_size=fewest_models))
    return Demand(
        application=draw(st.sampled_from(APPLICATIONS)),
        affinity=draw(st.sampled_from(CLASSES)),
        models=tuple(sorted(models)),
        is_exact=draw(st.booleans()),
        rate=draw(st.one_of(st.just(0.0), st.floats(1e-3, 100.0))),
    )


@st.composite
def instances(draw: st.DrawFn, fewest_models: int = 1) -> Instance:
    devices = {t: draw(st.integers(0, 4)) for t in TYPES}
    levels = tuple(
        sorted(Level(model=m, approximation=skipping(k)) for m in MODELS for k in (0, 20))
    )
    slots = [(t, m) for t in TYPES for m in MODELS if draw(st.integers(0, 9)) > 0]
    return Instance(
        devices=devices,
        levels=levels,
        demands=tuple(draw(st.lists(demands(fewest_models), max_size=4, unique_by=_row_of))),
        tau={(level.name, t): draw(seconds) for level in levels for t in TYPES},
        quality={(c, level.name): draw(fractions) for c in CLASSES for level in levels},
        worth={m: draw(fractions) for m in MODELS},
        load={slot: draw(seconds) for slot in slots},
        held={slot: draw(st.integers(0, devices[slot[0]])) for slot in slots},
        gap=1e-6,
    )


def _row_of(demand: Demand) -> tuple[str, str, tuple[str, ...], bool]:
    return demand.application, demand.affinity, demand.models, demand.is_exact
