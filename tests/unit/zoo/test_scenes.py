import math
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.scenes import LEVELS, Scene, compose, draw, held_out, prompts, training_scene
from zoo.scenes.words import CLASHES, SIDE, Colour

levels = st.sampled_from(LEVELS)
seeds = st.integers(0, 2**32)


@given(levels, seeds, st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_a_scene_is_a_function_of_its_address(level, seed, index):
    scene = training_scene(level, seed, index)
    assert scene == training_scene(level, seed, index)
    assert (draw(scene) == draw(scene)).all()


@given(levels, seeds)
@settings(max_examples=200, deadline=None)
def test_figures_lie_inside_the_picture_and_apart(level, seed):
    figures = compose(Random(seed), level).figures
    for number, figure in enumerate(figures):
        reach = figure.radius * 0.95
        assert reach <= figure.x <= SIDE - reach
        assert reach <= figure.y <= SIDE - reach
        for other in figures[:number]:
            apart = math.dist((figure.x, figure.y), (other.x, other.y))
            assert apart > 0.95 * (figure.radius + other.radius)


@given(levels, seeds)
@settings(max_examples=200, deadline=None)
def test_every_figure_stands_out_from_the_background(level, seed):
    scene = compose(Random(seed), level)
    for figure in scene.figures:
        assert figure.noun.colour is not scene.background
        if scene.background:
            assert frozenset({figure.noun.colour, scene.background}) not in CLASHES
        else:
            assert figure.noun.colour is not Colour.WHITE


@given(levels, seeds)
@settings(max_examples=200, deadline=None)
def test_the_caption_names_every_figure_and_its_place(level, seed):
    scene = compose(Random(seed), level)
    for figure in scene.figures:
        assert _is_named(scene, figure.noun.words()) or _is_named(
            scene, figure.noun.words(plural=True)
        )
        assert figure.place is None or _is_named(scene, figure.place)
    assert scene.background is None or f"{scene.background} background" in scene.caption


def _is_named(scene: Scene, words: str) -> bool:
    return words in scene.caption


def test_level_one_has_forty_two_captions():
    assert len({training_scene(1, 0, index).caption for index in range(2000)}) == 42


def test_held_out_scenes_are_no_training_scenes():
    held = held_out(2, 200, seed=0)
    trained = [training_scene(2, 0, index) for index in range(200)]
    assert not {(scene.figures, scene.canvas) for scene in held} & {
        (scene.figures, scene.canvas) for scene in trained
    }


def test_prompts_repeat_for_a_seed_and_change_with_it():
    assert prompts(3, 20, seed=1) == prompts(3, 20, seed=1)
    assert prompts(3, 20, seed=1) != prompts(3, 20, seed=2)
    assert prompts(3, 20, seed=1)[:5] == prompts(3, 5, seed=1)


@given(levels, seeds, st.sampled_from((2, 4)))
@settings(max_examples=30, deadline=None)
def test_a_larger_picture_shows_the_same_scene(level, seed, scale):
    scene = compose(Random(seed), level)
    large, small = draw(scene, scale), draw(scene).astype(float)
    averaged = large.reshape(SIDE, scale, SIDE, scale, 3).mean((1, 3))
    assert large.shape == (scale * SIDE, scale * SIDE, 3)
    assert np.abs(averaged - small).mean() < 2.0
