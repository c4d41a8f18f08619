import pytest

from reporting.palette import PAINTS, colour, ramp

GRAPHICS, TEXT = 3.0, 4.5  #: least contrast by WCAG 2.2, AA


def contrast(one, other):
    """Compute the contrast of two colours (WCAG 2.2): 1 to 21."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour):
    parts = [channel / 255 for channel in bytes.fromhex(colour[1:])]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("ground", ["ground", "card"])
def test_text_and_lines_can_be_read_on_either_ground(is_dark, ground):
    under = colour(ground, is_dark=is_dark)
    for paint in ("text", "soft", "good", "bad", *(p for p in PAINTS if p[1:].isdigit())):
        least = GRAPHICS if paint[0] == "c" and paint != "card" else TEXT
        assert contrast(colour(paint, is_dark=is_dark), under) >= least, paint


@pytest.mark.parametrize("is_dark", [False, True])
def test_levels_get_lighter_from_the_best_to_the_fastest(is_dark):
    levels = ramp([f"m@{k}" for k in range(13)])
    ground = colour("ground")
    contrasts = [contrast(colour(paint, is_dark=is_dark), ground) for paint in levels.values()]
    assert contrasts == sorted(contrasts, reverse=True)


def test_two_levels_are_as_far_apart_as_colours_go():
    assert list(ramp(["best", "fastest"]).values()) == ["r0", "r12"]


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
