from difflib import SequenceMatcher
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.checker import check
from zoo.scenes import LEVELS, draw, training_scene
from zoo.scorer.changes import Change, change, change_of
from zoo.scorer.flaws import flawed
from zoo.scorer.truth import share
from zoo.scorer.wording import caption_of

scenes = st.builds(training_scene, st.sampled_from(LEVELS), st.just(5), st.integers(0, 2**31))
randoms = st.integers(0, 2**31).map(Random)

#: Levels whose captions have a word of each kind.
WHERE = {
    Change.COLOUR: {1, 2, 3, 4, 5},
    Change.SHAPE: {1, 2, 3, 4, 5},
    Change.TEXTURE: {1, 2, 3, 4, 5},
    Change.SIZE: {2},
    Change.PLACE: {2, 5},
    Change.RELATION: {3},
    Change.COUNT: {3, 4},
    Change.BACKGROUND: {2, 3, 4, 5},
}


@given(scenes)
@settings(max_examples=200, deadline=None)
def test_a_scene_is_worded_as_the_grammar_words_it(scene):
    assert caption_of(scene) == scene.caption


@given(scenes)
@settings(max_examples=60, deadline=None)
def test_a_perfect_eye_sees_all_that_a_caption_says(scene):
    assert share(scene, scene) == 1


@given(scenes, randoms)
@settings(max_examples=60, deadline=None)
def test_each_of_two_twins_is_wrong_for_the_other_by_the_checker(scene, rng):
    _, twin = change(scene, rng)
    assert not check(draw(scene), twin).is_right
    assert not check(draw(twin), scene).is_right


@given(scenes, randoms)
@settings(max_examples=100, deadline=None)
def test_captions_of_twins_differ_in_one_word(scene, rng):
    _, twin = change(scene, rng)
    matcher = SequenceMatcher(None, words(scene), words(twin), autojunk=False)
    edits = [each for each in matcher.get_opcodes() if each[0] != "equal"]
    assert len(edits) == 1
    _, a, b, c, d = edits[0]
    assert max(b - a, d - c) <= 1


def words(scene):
    """A place or a relation is one word, whatever its spelling; so is an article no word."""
    text = scene.caption.replace(",", "")
    for phrase in ("left of", "right of"):
        text = text.replace(phrase, phrase.replace(" ", "-"))
    for place in ("top left", "top right", "bottom left", "bottom right"):
        text = text.replace(f"in the {place}", place.replace(" ", "-"))
    for start in ("in the", "at the", "on the"):
        for place in ("top", "left", "center", "right", "bottom"):
            text = text.replace(f"{start} {place}", place)
    singular = {"crosses": "cross"} | {
        f"{shape}s": shape for shape in ("circle", "square", "triangle", "star", "ring")
    }
    return [singular.get(word, word) for word in text.split() if word not in {"a", "an"}]


@pytest.mark.parametrize("kind", Change)
def test_every_kind_of_change_comes_up_where_captions_have_such_a_word(kind):
    found = {
        level
        for level in LEVELS
        for at in range(40)
        if change_of(training_scene(level, 6, at), kind, Random(at))
    }
    assert found == WHERE[kind]


def test_flaws_range_from_slight_to_grave_and_repeat():
    drawn = [training_scene(LEVELS[at % 5], 7, at) for at in range(60)]
    shares = [check(flawed(scene, Random(at)), scene).share for at, scene in enumerate(drawn)]
    assert min(shares) < 0.3 and max(shares) == 1
    assert sum(each < 1 for each in shares) > 40
    assert (flawed(drawn[0], Random(1)) == flawed(drawn[0], Random(1))).all()
