from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoo.evaluate import Settings
from zoo.inpaint import inpaint, judge, load
from zoo.replaced import has_new_figure, tasks
from zoo.scenes import draw
from zoo.scenes.words import RGB

BASE = Path(__file__).parents[3] / "zoo" / "weights" / "shapes-xl"


def test_tasks_ask_for_another_figure_that_can_be_seen():
    for task in tasks(40, seed=1):
        old = task.scene.figures[0].noun
        assert task.noun.shape is not old.shape
        assert task.noun.colour not in (old.colour, task.scene.background)
        assert task.noun.words() in task.prompt


def test_a_prompt_may_say_where_the_figure_is():
    for task in (replace(each, says_place=True) for each in tasks(20, seed=1)):
        place = task.scene.figures[0].place
        assert place is None or place in task.prompt


def test_a_mask_covers_the_old_figure():
    for task in tasks(40, seed=1):
        picture = draw(task.scene).astype(float)
        differs = np.abs(picture - picture[0, 0]).max(axis=-1) > 30
        assert task.mask[differs].all()
        assert not task.mask.all()


def test_a_new_figure_is_found_in_a_picture_of_any_size():
    for task in tasks(8, seed=1):
        (old,) = task.scene.figures
        replaced = replace(
            task.scene, figures=(replace(old, noun=task.noun, rgb=RGB[task.noun.colour]),)
        )
        for scale in (1, 4):
            assert has_new_figure(draw(replaced, scale), task)
            assert not has_new_figure(draw(task.scene, scale), task)
            assert task.mask_at(scale).mean() == pytest.approx(task.mask.mean(), rel=0.15)


def test_an_unchanged_picture_shows_no_change():
    chosen = tasks(8, seed=1)
    figures = judge([draw(task.scene) for task in chosen], chosen)
    assert (figures.inside, figures.outside, figures.in_colour) == (0.0, 0.0, 0.0)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of diffusers
def test_shapes_xl_changes_what_the_mask_covers_and_keeps_the_rest():
    chosen = tasks(6, seed=1)
    settings = Settings(steps=8, guidance=4.0, seed=0)
    figures = judge(inpaint(load(BASE), chosen, settings), chosen)
    assert figures.outside < 8.0
    assert figures.inside > 4 * figures.outside
    assert figures.in_colour >= 0.5
