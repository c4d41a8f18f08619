"""Weights that were loaded, held against what their folder has by now."""

import os
from pathlib import Path

import pytest

from catalog.watch import SETTLED_S, LoadedWeights
from catalog.weights import fingerprint


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    file = tmp_path / "a" / "unet" / "diffusion_pytorch_model.safetensors"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"old")
    return file


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loaded(tmp_path: Path, weights: Path, clock: Clock) -> LoadedWeights:
    loaded = LoadedWeights(tmp_path, clock)
    loaded.note("a", fingerprint(tmp_path / "a"))
    return loaded


def replaced_later(loaded: LoadedWeights, clock: Clock) -> list[str]:
    loaded.replaced(["a"])
    clock.now += SETTLED_S
    return loaded.replaced(["a"])


def test_others_of_the_same_size_are_noticed(tmp_path, loaded, weights, clock):
    assert replaced_later(loaded, clock) == []
    weights.write_bytes(b"new")
    os.utime(weights, (5.0, 5.0))  # the clock of a disk may stand still for as long as this test
    assert replaced_later(loaded, clock) == ["a"]
    assert loaded.replaced(["a"]) == ["a"], "until they are loaded"
    loaded.note("a", fingerprint(tmp_path / "a"))
    assert loaded.replaced(["a"]) == []


def test_what_is_loaded_anew_is_what_counts(tmp_path, loaded, weights, clock):
    old = fingerprint(tmp_path / "a")
    weights.write_bytes(b"new")
    loaded.note("a", fingerprint(tmp_path / "a"))
    assert replaced_later(loaded, clock) == []
    loaded.note("a", old)  # read before the folder changed, and loaded after
    assert loaded.replaced(["a"]) == ["a"]


def test_a_folder_that_is_being_written_waits(loaded, weights, clock):
    assert replaced_later(loaded, clock) == []
    for size in range(5):
        weights.write_bytes(b"n" * size)
        assert loaded.replaced(["a"]) == []
        clock.now += SETTLED_S - 0.1
    assert loaded.replaced(["a"]) == []
    clock.now += 0.1
    assert loaded.replaced(["a"]) == ["a"]


def test_a_copy_of_the_same_is_read_once(loaded, weights, clock, tmp_path):
    weights.unlink()
    weights.write_bytes(b"old")
    assert replaced_later(loaded, clock) == []
    other = tmp_path / "a" / "notes.txt"  # no weights
    other.write_text("new")
    assert replaced_later(loaded, clock) == []


def test_models_that_were_not_loaded_or_have_gone_are_none_of_it(loaded, weights, clock):
    assert loaded.replaced(["b"]) == []
    weights.unlink()
    weights.mkdir()  # cannot be read
    assert replaced_later(loaded, clock) == []
