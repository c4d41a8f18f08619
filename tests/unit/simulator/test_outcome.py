"""Figures of an outcome: what counts as late, and what goodput is."""

import numpy as np
import pytest

from simulator.outcome import NO_LEVEL, PolicyOutcome, Series

NAN = float("nan")


def an_outcome(**changes) -> PolicyOutcome:
    none = np.zeros(0, np.int64)
    series = Series(
        stretch_s=60.0,
        demand=none,
        done=none,
        late=none,
        quality=np.zeros(0),
        goodput=np.zeros(0),
        levels=np.zeros((0, 1), np.int64),
        loading=np.zeros(0),
        holding=np.zeros((0, 1)),
        busy=np.zeros(0),
    )
    given = {
        "at_s": np.array([0.0, 1.0, 2.0, 3.0]),
        "slo_s": np.full(4, 5.0),
        "ended_s": np.array([4.0, 9.0, NAN, NAN]),
        "level": np.array([0, 0, NO_LEVEL, 0], np.int16),
        "quality": np.array([0.8, 1.0, NAN, NAN]),
        "was_refused": np.array([False, False, True, False]),
        "was_canceled": np.array([False, False, False, True]),
    }
    return PolicyOutcome(
        policy="p",
        seed=0,
        levels=("m@0",),
        models=("m",),
        loads=2,
        up_s={"a100": 10.0, "l40s": 10.0},
        busy_s={"a100": 10.0},
        plans=(),
        series=series,
        **(given | changes),
    )


def test_late_is_what_ends_too_late_or_is_refused_and_counts_nothing():
    outcome = an_outcome()
    assert outcome.was_late.tolist() == [False, True, True, False]
    assert outcome.goodput == pytest.approx(0.8 / 3)


def test_figures_are_over_jobs_that_no_client_took_back():
    figures = an_outcome().figures()
    assert figures["jobs"] == 3
    assert figures["late"] == pytest.approx(2 / 3)
    assert figures["quality"] == pytest.approx(0.9)
    assert figures["utilisation"] == 0.5
    assert figures["p50_s"] == pytest.approx(6.0)
    assert figures["levels"] == {"m@0": 1.0}


def test_a_world_without_jobs_has_figures_all_the_same():
    none = np.zeros(0)
    flags = np.zeros(0, np.bool_)
    outcome = an_outcome(
        at_s=none,
        slo_s=none,
        ended_s=none,
        quality=none,
        level=np.zeros(0, np.int16),
        was_refused=flags,
        was_canceled=flags,
    )
    assert outcome.figures()["p95_s"] is None
