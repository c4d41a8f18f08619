import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from worker.affinity.labels import Labels
from worker.affinity.relative import optimal, relative
from zoo.quality.routed import assigned, optimal_loads, planned_loads, routed, rows_of

QUALITY = arrays(np.float32, (12, 3, 2), elements=st.integers(0, 20).map(lambda n: n / 20))


def labels_of(quality: "np.ndarray") -> Labels:
    prompts = tuple(map(str, range(len(quality))))
    return Labels(levels=("fast@0", "mid@0", "slow@0"), prompts=prompts, quality=quality)


@settings(max_examples=20, deadline=None)
@given(quality=QUALITY)
def test_levels_get_their_loads_and_whoever_knows_all_is_never_behind(quality) -> None:
    labels = labels_of(quality)
    loads = optimal_loads(labels)
    level = assigned(relative(labels.mean), loads)
    assert np.bincount(level, minlength=3) / 12 == pytest.approx(loads)
    found = routed(labels, labels.mean, optimal(labels.mean), np.eye(3), loads)
    assert found.perfect >= max(found.random, found.by_class) - 1e-6
    assert found.perfect == pytest.approx(found.by_prompt)
    assert found.foreseen is not None


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


def test_who_knows_nothing_closes_nothing_and_who_knows_all_closes_all() -> None:
    rng = np.random.default_rng(0)
    labels = labels_of(rng.random((40, 3, 1)).astype(np.float32))
    nobody, alike = np.ones((40, 3)), np.zeros(40, np.int64)
    blind = routed(labels, nobody, alike, np.ones((1, 3)), optimal_loads(labels))
    assert blind.closed(blind.by_class) == pytest.approx(0, abs=1e-6)
    assert blind.closed(blind.perfect) == 1
    assert blind.foreseen is None


def test_planned_loads_keep_to_their_time() -> None:
    quality = np.tile(np.array([0.4, 0.8, 1.0], np.float32)[None, :, None], (10, 1, 1))
    loads = planned_loads(labels_of(quality), (1.0, 2.0, 4.0), busy=1 / 3)
    assert loads == pytest.approx([0, 1, 0], abs=1e-6)
