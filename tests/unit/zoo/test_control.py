from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo import architecture
from zoo.control.condition import CELL, Kind, base, silhouette, view
from zoo.control.measure import PASS, agreement, is_met
from zoo.control.training import ControlRecipe, conditions, draw_times
from zoo.detector import CONTRAST, detect, masks
from zoo.scenes import LEVELS, compose, draw, held_out
from zoo.scenes.words import shade


def scene_of(seed, level):
    return compose(Random(seed), level)


def stands_out(scene):
    """Tell whether every shade in a scene can be told from the background, jitter and all."""
    shades = [figure.rgb for figure in scene.figures]
    shades += [shade(figure.rgb) for figure in scene.figures if figure.noun.texture]
    contrast = np.abs(np.asarray(shades) - np.asarray(scene.canvas)).max(axis=-1)
    return bool((contrast > CONTRAST + 1).all())


scenes = st.builds(scene_of, st.integers(0, 10_000), st.sampled_from(LEVELS)).filter(stands_out)
kinds = st.sampled_from(list(Kind))


#: With pale stripes, and with two figures of which the rims touch.
HARD = [scene_of(94, 5), scene_of(357, 4), scene_of(950, 4)]


@pytest.mark.parametrize("scene", HARD)
def test_a_figure_is_seen_with_both_its_shades_and_apart_from_others(scene):
    seen = sorted(
        (each.shape, each.colour, str(each.texture)) for each in detect(draw(scene)).figures
    )
    nouns = [figure.noun for figure in scene.figures]
    assert seen == sorted((noun.shape, noun.colour, str(noun.texture)) for noun in nouns)
    assert all(is_met(kind, draw(scene), scene) for kind in Kind)


@pytest.mark.long
def test_every_shade_and_condition_of_thousands_of_scenes_is_seen():
    numbered = ((seed, level) for level in LEVELS for seed in range(1000))
    for seed, level in numbered:
        if stands_out(scene := scene_of(seed, level)):
            test_a_figure_is_seen_with_both_its_shades_and_apart_from_others(scene)


@given(kinds, scenes)
@settings(max_examples=60, deadline=None)
def test_a_true_picture_meets_the_condition(kind, scene):
    assert is_met(kind, draw(scene), scene)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_picture_of_another_scene_does_not(kind):
    mixed = [scene for level in LEVELS for scene in held_out(level, 12, seed=3)]
    others = [*mixed[1:], mixed[0]]
    assert not any(
        is_met(kind, draw(other), scene) for other, scene in zip(others, mixed, strict=True)
    )


@pytest.mark.parametrize("kind", list(Kind))
def test_an_empty_picture_meets_nothing(kind):
    scene = held_out(4, 1, seed=3)[0]
    canvas = np.full((64, 64, 3), np.asarray(scene.canvas), dtype=np.uint8)
    assert agreement(kind, canvas, scene) < PASS[kind] / 2


@given(kinds, scenes)
@settings(max_examples=30, deadline=None)
def test_a_condition_is_a_picture_and_the_same_each_time(kind, scene):
    picture = view(kind, scene)
    assert picture.shape == (64, 64, 3)
    assert picture.dtype == np.uint8
    assert np.array_equal(picture, view(kind, scene))


@given(scenes)
@settings(max_examples=30, deadline=None)
def test_edges_and_depth_tell_no_colour(scene):
    grey = replace(
        scene,
        canvas=(9.0, 9.0, 9.0),
        figures=tuple(replace(figure, rgb=(99.0, 99.0, 99.0)) for figure in scene.figures),
    )
    for kind in (Kind.EDGES, Kind.DEPTH):
        assert np.array_equal(view(kind, scene), view(kind, grey))


@given(scenes)
@settings(max_examples=30, deadline=None)
def test_what_stands_lower_is_brighter(scene):
    picture = view(Kind.DEPTH, scene)[..., 0]
    regions = [silhouette(figure) for figure in scene.figures]
    ordered = sorted(regions, key=base)
    brightness = [int(picture[region].max()) for region in ordered]
    assert brightness == sorted(brightness)
    assert brightness[0] > 0
    assert (picture[~np.logical_or.reduce(regions)] == 0).all()


def test_a_layout_has_flat_cells():
    picture = view(Kind.LAYOUT, held_out(3, 1, seed=3)[0])
    assert (picture.reshape(16, CELL, 16, CELL, 3).std(axis=(1, 3)) == 0).all()


def test_a_shape_of_the_same_size_has_other_edges():
    scene = next(each for each in held_out(1, 40, seed=3) if each.figures[0].noun.shape == "circle")
    figure = scene.figures[0]
    for shape in ("square", "triangle", "star", "cross", "ring"):
        noun = replace(figure.noun, shape=type(figure.noun.shape)(shape))
        other = replace(scene, figures=(replace(figure, noun=noun),))
        assert not is_met(Kind.EDGES, draw(other), scene), shape


def test_a_missing_figure_has_no_depth():
    scene = held_out(5, 1, seed=3)[0]
    fewer = replace(scene, figures=scene.figures[1:])
    assert agreement(Kind.DEPTH, draw(fewer), scene) == 0.0


@given(scenes)
@settings(max_examples=30, deadline=None)
def test_as_many_figures_are_seen_as_were_drawn(scene):
    assert len(masks(draw(scene))) == len(scene.figures)


def test_conditions_reach_the_network_as_the_pipeline_scales_them():
    white = np.full((64, 64, 3), 255, dtype=np.uint8)
    tensor = conditions([white, white * 0])
    assert tensor.shape == (2, 3, 64, 64)
    assert (tensor.min(), tensor.max()) == (0.0, 1.0)


def test_most_noise_levels_are_high_and_all_occur():
    recipe = ControlRecipe(kind=Kind.EDGES)
    last = architecture.SCHEDULE["num_train_timesteps"]
    times = draw_times(20_000, last, recipe, torch.Generator().manual_seed(0))
    assert times.min() >= 0
    assert times.max() == last - 1
    share = (times >= recipe.decisive).float().mean().item()
    assert share == pytest.approx(recipe.decisive_share, abs=0.02)
