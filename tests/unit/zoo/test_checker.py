from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.cases import rarely_but
from zoo.checker import Aspect, check
from zoo.detector import detect
from zoo.scenes import LEVELS, Bond, Figure, Noun, Scene, draw, held_out
from zoo.scenes.words import RGB, Colour, Relation, Shape, Size, Texture


def _figure(colour=Colour.RED, shape=Shape.CIRCLE, *, x=32.0, y=32.0, radius=14.0, **words):
    place = words.pop("place", None)
    noun = Noun(shape=shape, colour=colour, **words)
    return Figure(noun=noun, x=x, y=y, radius=radius, rgb=RGB[colour], place=place)


def _scene(*figures, background=None, bonds=()):
    canvas = RGB[background] if background else (205.0, 205.0, 205.0)
    return Scene(
        level=2,
        caption="",
        background=background,
        canvas=canvas,
        figures=figures,
        bonds=bonds,
    )


@pytest.mark.parametrize("level", rarely_but([LEVELS[-1]], LEVELS))
def test_larger_pictures_are_judged_as_they_are(level):
    reports = [check(draw(scene, 4), scene) for scene in held_out(level, 8, seed=3)]
    assert all(report.is_right for report in reports)


def test_a_speck_in_a_larger_picture_is_a_figure_too_many():
    scene = _scene(_figure(size=Size.SMALL, place="in the center", radius=8.5))
    picture = draw(scene, 4)
    assert check(picture, scene).is_right
    picture[10:15, 10:15] = 0
    wrong = [part.aspect for part in check(picture, scene).parts if not part.is_right]
    assert wrong == [Aspect.COUNT]


def _wrong(drawn: Scene, described: Scene) -> set[Aspect]:
    report = check(draw(drawn), described)
    return {part.aspect for part in report.parts if not part.is_right}


@pytest.mark.parametrize("level", LEVELS)
def test_true_pictures_pass(level):
    reports = [check(draw(scene), scene) for scene in held_out(level, 48, seed=3)]
    assert sum(report.is_right for report in reports) >= 0.95 * len(reports)


@pytest.mark.parametrize("level", LEVELS)
def test_the_picture_of_another_prompt_fails(level):
    scenes = held_out(level, 40, seed=4)
    pairs = [(one, other) for one, other in pairwise(scenes) if one.caption != other.caption]
    assert not any(check(draw(one), other).is_right for one, other in pairs)


def test_an_empty_picture_fails_in_every_part_but_the_background():
    blank = np.full((64, 64, 3), 220, dtype=np.uint8)
    report = check(blank, _scene(_figure(place="in the center", size=Size.LARGE)))
    assert not any(part.is_right for part in report.parts)


def test_a_wrong_colour_is_one_wrong_part():
    assert _wrong(_scene(_figure(Colour.BLUE)), _scene(_figure(Colour.RED))) == {Aspect.COLOUR}


@pytest.mark.parametrize("asked", list(Shape))
@pytest.mark.parametrize("drawn", list(Shape))
def test_each_shape_is_told_from_every_other(drawn, asked):
    wrong = _wrong(_scene(_figure(shape=drawn)), _scene(_figure(shape=asked)))
    assert wrong == (set() if drawn is asked else {Aspect.SHAPE})


def test_a_wrong_background_is_one_wrong_part():
    figure = _figure(Colour.BLACK)
    drawn = _scene(figure, background=Colour.GREEN)
    assert _wrong(drawn, _scene(figure, background=Colour.BLUE)) == {Aspect.BACKGROUND}


def test_a_missing_figure_is_a_wrong_count():
    left, right = _figure(x=16.0, radius=12.0), _figure(x=48.0, radius=12.0)
    assert Aspect.COUNT in _wrong(_scene(left), _scene(left, right))


def test_one_figure_too_many_is_a_wrong_count():
    left, right = _figure(x=16.0, radius=12.0), _figure(x=48.0, radius=12.0)
    assert _wrong(_scene(left, right), _scene(left)) == {Aspect.COUNT}


@pytest.mark.parametrize("drawn", [None, *Texture])
@pytest.mark.parametrize("asked", [None, *Texture])
def test_each_texture_is_told_from_the_others(drawn, asked):
    wrong = _wrong(_scene(_figure(texture=drawn)), _scene(_figure(texture=asked)))
    assert wrong == (set() if drawn is asked else {Aspect.TEXTURE})


@pytest.mark.parametrize(("radius", "size"), [(8.5, Size.SMALL), (20.0, Size.LARGE)])
def test_a_named_size_must_be_seen(radius, size):
    asked = _scene(_figure(size=size))
    assert _wrong(_scene(_figure(radius=radius)), asked) == set()
    assert _wrong(_scene(_figure(radius=14.0)), asked) == {Aspect.SIZE}


def test_a_figure_nearer_to_another_place_is_misplaced():
    asked = _scene(_figure(place="on the left"))
    assert _wrong(_scene(_figure(x=16.0)), asked) == set()
    assert _wrong(_scene(_figure(x=26.0)), asked) == {Aspect.PLACE}


@pytest.mark.parametrize(
    ("relation", "x", "y"),
    [
        (Relation.LEFT_OF, 16, 32),
        (Relation.RIGHT_OF, 48, 32),
        (Relation.ABOVE, 32, 16),
        (Relation.BELOW, 32, 48),
    ],
)
def test_a_relation_holds_one_way_only(relation, x, y):
    red = _figure(x=float(x), y=float(y), radius=11.0)
    blue = _figure(Colour.BLUE, x=64.0 - x, y=64.0 - y, radius=11.0)
    asked = _scene(red, blue, bonds=(Bond(relation=relation, figures=(0, 1)),))
    assert _wrong(_scene(red, blue), asked) == set()
    swapped = (replace(red, x=blue.x, y=blue.y), replace(blue, x=red.x, y=red.y))
    assert _wrong(_scene(*swapped), asked) == {Aspect.RELATION}


def test_between_means_between():
    red, blue, green = (
        _figure(colour, x=x, radius=8.5)
        for colour, x in ((Colour.RED, 32.0), (Colour.BLUE, 11.5), (Colour.GREEN, 52.5))
    )
    asked = _scene(red, blue, green, bonds=(Bond(relation=Relation.BETWEEN, figures=(0, 1, 2)),))
    assert _wrong(_scene(red, blue, green), asked) == set()
    swapped = (replace(red, x=11.5), replace(blue, x=32.0), green)
    assert _wrong(_scene(*swapped), asked) == {Aspect.RELATION}


def test_the_detector_measures_where_and_how_large():
    (seen,) = detect(draw(_scene(_figure(x=20.0, y=40.0, radius=12.0)))).figures
    assert (seen.x, seen.y) == pytest.approx((20.0, 40.0), abs=0.6)
    assert seen.extent == pytest.approx(12.0 * 0.95, abs=0.6)
