import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifier.labels import Origin, labels_of, merged, read_labels, write_labels
from core.errors import ConfigurationError
from tests.unit.classifier.fake import LEVELS

QUALITIES = st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=1, max_size=3)
ROWS = st.lists(
    st.tuples(st.text(max_size=20), st.dictionaries(st.sampled_from(LEVELS), QUALITIES)),
    max_size=8,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("labels") / "labels.gz"


@settings(max_examples=30)
@given(rows=ROWS, weight=st.sampled_from((1.0, 0.25, 8.0)))
def test_labels_come_back_as_they_were_written(
    rows: list[tuple[str, dict[str, list[float]]]], weight: float, path: Path
) -> None:
    labels = labels_of(LEVELS, rows, Origin(digests={"base": "d"}, steps=10), weight)
    write_labels(path, labels)
    again = read_labels(path)
    assert (again.prompts, again.levels, again.origin) == (
        labels.prompts,
        labels.levels,
        labels.origin,
    )
    np.testing.assert_allclose(again.quality, labels.quality, atol=1e-4)
    np.testing.assert_array_equal(again.weight, labels.weight)


def test_images_that_were_not_made_do_not_count() -> None:
    labels = labels_of(LEVELS, [("a", {"tiny@0": [0.5, 1.0], "base@0": [0.0]}), ("b", {})])
    assert labels.counts.tolist() == [[2, 0, 1], [0, 0, 0]]
    assert labels.mean.tolist() == [[0.75, 0, 0], [0, 0, 0]]
    assert labels.chosen([1]).prompts == ("b",)
    assert labels.at([2]).mean.tolist() == [[0], [0]]


def test_images_of_equal_prompts_are_put_together() -> None:
    rows = [("a", {"tiny@0": [0.5]}), ("b", {"base@0": [1.0]}), ("a", {"tiny@0": [0.75, 0.0]})]
    found = merged(labels_of(LEVELS, rows, Origin(steps=10)))
    assert (found.prompts, found.origin.steps) == (("a", "b"), 10)
    assert found.judged() == [{"tiny@0": [0.5, 0.75, 0.0]}, {"base@0": [1.0]}]


def test_what_was_checked_counts_more_than_what_was_estimated() -> None:
    checked = labels_of(LEVELS, [("a", {"tiny@0": [1.0]})])
    guessed = replace(labels_of(LEVELS, [("a", {"tiny@0": [0.0]})]), weight=0.25 * checked.weight)
    both = replace(
        checked,
        prompts=("a", "a"),
        quality=np.concatenate([checked.quality, guessed.quality]),
        weight=np.concatenate([checked.weight, guessed.weight]),
    )
    found = merged(both)
    assert found.prompts == ("a",)
    assert (found.counts[0, 0], found.weights[0, 0], found.mean[0, 0]) == (2, 1.25, 0.8)


def test_labels_of_several_weights_are_refused(path: Path) -> None:
    labels = labels_of(LEVELS, [("a", {"tiny@0": [1.0], "base@0": [0.0]})])
    labels.weight[0, 0] *= 2
    with pytest.raises(ValueError, match="2 weights"):
        write_labels(path, labels)


def test_a_file_without_labels_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        read_labels(tmp_path / "nowhere")
    whole = gzip.compress(b"{}" * 100)
    for torn in (whole[:2], whole[:-9], whole[:10] + b"\xff" + whole[11:]):
        (tmp_path / "torn").write_bytes(torn)
        with pytest.raises(ConfigurationError, match="torn"):
            read_labels(tmp_path / "torn")


def test_a_level_that_the_first_line_does_not_list_is_named_with_its_line(tmp_path: Path) -> None:
    lines = b'{"levels": ["a@0"], "origin": {}}\n{"prompt": "x", "quality": {"a@0": [1]}}\n'
    named = gzip.compress(lines + b'{"prompt": "y", "quality": {"b@0": [1]}}')
    (tmp_path / "named").write_bytes(named)
    with pytest.raises(ConfigurationError, match=r"named.*line 3: level 'b@0'.*line 1: a@0"):
        read_labels(tmp_path / "named")
