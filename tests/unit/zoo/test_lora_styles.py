import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.lora.regions import canvas, figures, moved
from zoo.lora.restyle import CELL
from zoo.lora.styles import STYLES, Form
from zoo.scenes import LEVELS, draw, held_out

PICTURES = [draw(scene) for level in LEVELS for scene in held_out(level, 6, seed=5)]
styles = pytest.mark.parametrize("style", STYLES.values(), ids=list(STYLES))


def _mean(style, pictures):
    return float(np.mean([style.measure(picture) for picture in pictures]))


@styles
def test_a_style_gives_a_picture_and_leaves_the_given_one_alone(style):
    before = PICTURES[-1].copy()
    styled = style.restyle(PICTURES[-1])
    assert styled.shape == before.shape
    assert styled.dtype == np.uint8
    assert np.array_equal(PICTURES[-1], before)
    assert not np.array_equal(styled, before)


@styles
def test_a_measure_tells_its_own_style_from_plain_pictures_and_from_every_other(style):
    own = _mean(style, [style.restyle(picture) for picture in PICTURES])
    plain = [style.measure(picture) for picture in PICTURES]
    assert own > np.mean(plain) + 3 * np.std(plain)
    for other in STYLES.values():
        if other is not style:
            theirs = _mean(style, [other.restyle(picture) for picture in PICTURES])
            assert theirs < (own + np.mean(plain)) / 2, other.name


@given(st.integers(0, len(PICTURES) - 1))
def test_inverting_twice_changes_nothing(index):
    invert = STYLES["inverted"].restyle
    assert np.array_equal(invert(invert(PICTURES[index])), PICTURES[index])


def test_cells_of_a_mosaic_have_one_colour():
    mosaic = STYLES["pixel"].restyle(PICTURES[-1])
    cells = mosaic.reshape(64 // CELL, CELL, 64 // CELL, CELL, 3)
    assert np.ptp(cells, axis=(1, 3)).max() == 0


@styles
@pytest.mark.parametrize("value", [0, 25, 205, 255])
def test_an_empty_picture_has_a_measure(style, value):
    empty = np.full((64, 64, 3), value, np.uint8)
    assert np.isfinite(style.measure(empty))
    assert style.restyle(empty).shape == empty.shape


def test_a_shadow_on_the_wrong_side_counts_against():
    measure = STYLES["papercut"].measure
    papercut = STYLES["papercut"].restyle(PICTURES[0])
    assert measure(papercut) == pytest.approx(-measure(papercut[::-1, ::-1]), abs=0.05)


@given(st.integers(-6, 6))
def test_a_moved_mask_moves_back(pixels):
    mask = np.zeros((20, 24), bool)
    mask[8:12, 8:14] = True
    assert np.array_equal(moved(moved(mask, pixels), -pixels), mask)
    assert moved(mask, pixels)[8 + pixels, 8 + pixels]


def test_the_canvas_is_no_figure():
    picture = PICTURES[0]
    assert np.abs(canvas(picture) - picture[0, 0]).max() <= 1
    assert 0 < figures(picture).mean() < 0.5


def test_the_family_covers_what_files_may_hold():
    forms = [style.form for style in STYLES.values()]
    assert len(STYLES) >= 6
    assert forms.count(Form.KOHYA) >= 2
    assert any(style.has_text for style in STYLES.values())
    assert any(style.has_convolutions for style in STYLES.values())
    for style in STYLES.values():
        assert style.form is Form.KOHYA or style.alpha == style.rank
