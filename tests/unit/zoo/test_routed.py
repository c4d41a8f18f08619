import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from classifier.labels import Labels
from classifier.relative import optimal, relative
from zoo.quality.routed import _mean, assigned, optimal_loads, planned_loads, routed, rows_of

QUALITY = arrays(np.float32, (12, 3, 2), elements=st.integers(0, 20).map(lambda n: n / 20))


def labels_of(quality: "np.ndarray") -> Labels:
    prompts = tuple(map(str, range(len(quality))))
    levels, weight = ("fast@0", "mid@0", "slow@0"), np.asarray(~np.isnan(quality), np.float32)
    return Labels(levels=levels, prompts=prompts, quality=quality, weight=weight)


@settings(max_examples=20, deadline=None)
@given(quality=QUALITY)
def test_levels_get_their_loads_and_whoever_knows_all_is_never_behind(quality) -> None:
    labels = labels_of(quality)
    loads = optimal_loads(labels)
    level = assigned(relative(labels.mean), loads)
    assert np.bincount(level, minlength=3) / 12 == pytest.approx(loads)
    known = _mean(relative(labels.mean), level)
    found = routed(labels, labels.mean, optimal(labels.mean), np.eye(3), loads)
    assert found.by_prompt == pytest.approx(known)
    assert known >= max(found.random, found.by_class) - 1e-6


@settings(max_examples=20, deadline=None)
@given(quality=QUALITY)
def test_rows_of_classes_add_up_to_one_and_to_the_loads(quality) -> None:
    labels = labels_of(quality)
    loads = np.array([0.5, 0.3, 0.2])
    classes = optimal(labels.mean)
    affinity = np.bincount(classes, minlength=3) / 12
    rows = rows_of(affinity, loads, relative(labels.mean)[:3])
    assert rows.sum(axis=1) == pytest.approx(1)
    assert affinity @ rows == pytest.approx(loads)


def test_who_knows_nothing_gains_nothing() -> None:
    rng = np.random.default_rng(0)
    labels = labels_of(rng.random((40, 3, 2)).astype(np.float32))
    nobody, alike = np.full((40, 3), 0.5), np.zeros(40, np.int64)
    blind = routed(labels, nobody, alike, np.ones((1, 3)), optimal_loads(labels))
    assert blind.by_class == pytest.approx(blind.random)


def test_what_is_perfect_is_told_from_a_few_images_of_each_prompt() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(0.7, 0.08, (600, 1)) + rng.normal(0, 0.08, (600, 3))
    luck = rng.normal(0, 0.1, (600, 3, 4))
    labels = labels_of((truth[:, :, None] + luck).astype(np.float32))
    loads, level = np.array([0.5, 0.3, 0.2]), np.tile(truth.mean(axis=0), (600, 1))
    found = routed(labels, level, np.zeros(600, np.int64), np.ones((1, 3)), loads)
    known = relative(truth)
    gain = _mean(known, assigned(known, loads)) - float(known.mean(axis=0) @ loads)
    assert found.perfect - found.random == pytest.approx(gain, rel=0.15)
    assert found.foreseen < found.perfect < found.lucky


def test_planned_loads_keep_to_their_time() -> None:
    quality = np.tile(np.array([0.4, 0.8, 1.0], np.float32)[None, :, None], (10, 1, 1))
    loads = planned_loads(labels_of(quality), (1.0, 2.0, 4.0), busy=1 / 3)
    assert loads == pytest.approx([0, 1, 0], abs=1e-6)
