import pytest

from core.levels.approximation import EXACT, SKIPS, skipping, whole_skips
from core.levels.level import Level, levels_of, resumed_levels
from core.levels.schedule import scaled
from core.model import Model


@pytest.mark.parametrize("steps", [10, 30, 50])
def test_a_model_of_many_steps_has_every_level(steps):
    model = Model(name="base", family="sdxl", default_steps=steps)
    assert levels_of(model) == (Level(model="base"), *resumed_levels(model))
    assert tuple(level.approximation.skipped_steps for level in resumed_levels(model)) == SKIPS


@pytest.mark.parametrize("steps", [4, 8, 25, 28])
def test_where_k_is_no_whole_number_of_steps_nothing_is_skipped(steps):
    assert levels_of(Model(name="few", family="sdxl", default_steps=steps)) == (Level(model="few"),)


def test_k_scales_to_the_steps_of_a_schedule():
    assert [scaled(15, steps) for steps in (50, 30, 10)] == [15, 9, 3]
    assert [skipping(15).steps_left(steps) for steps in (50, 30, 10)] == [35, 21, 7]
    assert skipping(15).share_of_steps == pytest.approx(0.7)


def test_steps_that_are_skipped_are_over_once_it_runs():
    assert [skipping(15).steps_left(30, done) for done in (0, 9, 20, 30, 31)] == [21, 21, 10, 0, 0]
    assert [EXACT.steps_left(30, done) for done in (0, 9, 30, 31)] == [30, 21, 0, 0]


@pytest.mark.parametrize("name", ["base@0", "base@20", "a@b@5"])
def test_a_level_is_read_as_it_is_named(name):
    level = Level.read(name)
    assert level.name == name
    assert Level(model=level.model, approximation=level.approximation) == level


@pytest.mark.parametrize("name", ["base", "base@", "base@-5", "base@many", ""])
def test_whatever_is_named_otherwise_is_no_level(name):
    with pytest.raises(ValueError, match="no approximation is called"):
        Level.read(name)


def test_levels_are_sorted_by_how_much_is_left_out():
    names = ["a@0", "a@5", "a@10", "a@25", "b@0", "b@20"]
    assert [level.name for level in sorted(map(Level.read, reversed(names)))] == names


def test_only_a_whole_number_of_steps_can_be_skipped():
    assert whole_skips(50) == whole_skips(10) == SKIPS
    assert whole_skips(25) == (10, 20)
    assert whole_skips(3) == ()
