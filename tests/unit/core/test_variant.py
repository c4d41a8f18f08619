import pytest

from core.variant import SKIPS, Level, Model, whole_skips


@pytest.mark.parametrize("steps", [10, 30, 50])
def test_a_model_of_many_steps_has_every_level(steps):
    model = Model(name="base", family="sdxl", default_steps=steps)
    assert model.levels == (Level(model="base"),)
    assert tuple(level.skipped_steps for level in model.resumed_levels) == SKIPS


@pytest.mark.parametrize("steps", [4, 8, 28])
def test_where_k_is_no_whole_number_of_steps_nothing_is_skipped(steps):
    assert Model(name="few", family="sdxl", default_steps=steps).resumed_levels == ()


def test_k_scales_to_the_steps_of_a_schedule():
    level = Level(model="base", skipped_steps=15)
    assert [level.skipped_of(steps) for steps in (50, 30, 10)] == [15, 9, 3]
    assert level.share_of_steps == pytest.approx(0.7)


def test_only_a_whole_number_of_steps_can_be_skipped():
    assert whole_skips(50) == whole_skips(10) == SKIPS
    assert whole_skips(25) == (10, 20)
    assert whole_skips(3) == ()
