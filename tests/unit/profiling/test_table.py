import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from classifier.relative import KEPT, optimal, relative
from core.levels.approximation import skipping
from core.levels.level import Level
from profiling.table import families, family
from scheduler.profile.profile_file import CACHED, EVERY, SMALLER

QUALITIES = arrays(
    float,
    st.tuples(st.integers(1, 8), st.integers(1, 5)),
    elements=st.sampled_from([0, 0.4, 0.9, 1]),
)


@given(QUALITIES)
def test_the_optimal_level_is_the_fastest_that_keeps_enough(quality):
    compared = relative(quality)
    for row, chosen in zip(compared, optimal(quality), strict=True):
        assert row[chosen] >= KEPT - 1e-9
        assert (row[:chosen] < KEPT).all()


@given(QUALITIES)
def test_relative_quality_is_one_at_the_best_level(quality):
    compared = relative(quality)
    assert (compared.max(axis=1) == 1).all()
    assert compared.min() >= 0


def test_where_every_level_fails_the_fastest_will_do():
    assert optimal(np.zeros((1, 3))).tolist() == [0]


@given(QUALITIES)
def test_shares_add_up_and_every_class_prefers_its_level(quality):
    names = [f"m{i}@0" for i in range(quality.shape[1])]
    found = family(names, quality[:, :, None], list(range(1, len(names) + 1)))
    assert sum(found.shares.values()) == pytest.approx(1)
    for name, row in found.quality.items():
        if name != "any":
            assert row[name] >= KEPT - 1e-9
            assert found.shares[name] > 0
    assert found.assignment.optimal >= KEPT - 1e-9
    assert found.assignment.low - 1e-9 <= found.assignment.random <= found.assignment.high + 1e-9


def test_levels_are_ordered_by_their_time():
    quality = np.array([[[1.0], [0.5]]])
    assert family(["slow@0", "fast@0"], quality, [2.0, 1.0]).levels == ("fast@0", "slow@0")


def test_a_shuffle_takes_the_same_time_and_loses_what_classes_lose():
    quality = np.array([[0.0, 1.0], [1.0, 1.0]])[:, :, None]
    found = family(["fast@0", "slow@0"], quality, [1.0, 3.0]).assignment
    assert (found.optimal, found.random, found.seconds) == (1.0, 0.75, 2.0)
    assert (found.low, found.high) == (0.5, 1.0)
    assert found.gain_on_other_noise is None


def test_luck_gains_nothing_on_other_noise():
    quality = (np.random.default_rng(0).random((400, 3, 2)) < 0.5).astype(float)
    found = family(["a@0", "b@0", "c@0"], quality, [1.0, 2.0, 3.0]).assignment
    assert found.optimal / found.random > 1.3
    assert abs(found.gain_on_other_noise) < 0.12


def test_what_prompts_really_need_gains_on_other_noise():
    quality = np.zeros((100, 2, 2))
    quality[:, 1], quality[:50, 0] = 1.0, 1.0
    found = family(["fast@0", "slow@0"], quality, [1.0, 2.0]).assignment
    assert found.gain_on_other_noise == pytest.approx(1 / 0.75 - 1)


def test_families_hold_what_their_names_say():
    values = {("good", 0): 1.0, ("good", 25): 0.5, ("small", 0): 0.6, ("small", 25): 0.1}
    quality = {
        Level(model=model, approximation=skipping(k)): np.full((3, 1), value)
        for (model, k), value in values.items()
    }
    tau = {level.name: 1.0 + level.is_exact for level in quality}
    found = families(quality, tau)
    assert set(found[SMALLER].levels) == {"good@0", "small@0"}
    assert set(found[CACHED].levels) == {"good@0", "good@25"}
    assert set(found[EVERY].levels) == {level.name for level in quality}
