"""Vocabulary of captions: shapes, colours, textures, sizes, relations."""

from enum import StrEnum

#: Side of a picture in pixels.
SIDE = 64

Rgb = tuple[float, float, float]


class Shape(StrEnum):
    """What a figure is."""

    CIRCLE = "circle"
    SQUARE = "square"
    TRIANGLE = "triangle"
    STAR = "star"
    CROSS = "cross"
    RING = "ring"

    @property
    def plural(self) -> str:
        """Name several of them."""
        return f"{self}es" if self is Shape.CROSS else f"{self}s"


class Colour(StrEnum):
    """What colour a figure or a background has."""

    RED = "red"
    GREEN = "green"
    BLUE = "blue"
    YELLOW = "yellow"
    PURPLE = "purple"
    ORANGE = "orange"
    WHITE = "white"
    BLACK = "black"
    GRAY = "gray"


class Texture(StrEnum):
    """How a figure is filled when it is not plain."""

    STRIPED = "striped"
    CHECKERED = "checkered"


class Size(StrEnum):
    """A size that the caption names."""

    SMALL = "small"
    LARGE = "large"


class Relation(StrEnum):
    """How the first figure lies to the others."""

    LEFT_OF = "left of"
    RIGHT_OF = "right of"
    ABOVE = "above"
    BELOW = "below"
    BETWEEN = "between"


RGB: dict[Colour, Rgb] = {
    Colour.RED: (220, 40, 40),
    Colour.GREEN: (40, 160, 60),
    Colour.BLUE: (45, 80, 220),
    Colour.YELLOW: (240, 215, 50),
    Colour.PURPLE: (140, 60, 180),
    Colour.ORANGE: (245, 140, 30),
    Colour.WHITE: (245, 245, 245),
    Colour.BLACK: (25, 25, 25),
    Colour.GRAY: (150, 150, 150),
}

#: Grey is a background only: as a figure it would read as the shade of white or black.
FIGURE_COLOURS = tuple(colour for colour in Colour if colour is not Colour.GRAY)

#: A figure of one never stands on the other: too near for eye, autoencoder and checker.
CLASHES = frozenset(
    {
        frozenset({Colour.ORANGE, Colour.RED}),
        frozenset({Colour.ORANGE, Colour.YELLOW}),
        frozenset({Colour.YELLOW, Colour.WHITE}),
    }
)

#: The canvas when the caption names no background: this grey, give or take.
DEFAULT_CANVAS = 205.0

PLACES: dict[str, tuple[int, int]] = {
    "in the top left": (16, 16),
    "at the top": (32, 16),
    "in the top right": (48, 16),
    "on the left": (16, 32),
    "in the center": (32, 32),
    "on the right": (48, 32),
    "in the bottom left": (16, 48),
    "at the bottom": (32, 48),
    "in the bottom right": (48, 48),
}
QUADRANTS = ("in the top left", "in the top right", "in the bottom left", "in the bottom right")

NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}

#: Half the extent of each shape, as a share of its radius.
EXTENT = {
    Shape.CIRCLE: 0.95,
    Shape.SQUARE: 0.82,
    Shape.TRIANGLE: 0.99,
    Shape.STAR: 1.0,
    Shape.CROSS: 0.92,
    Shape.RING: 0.95,
}


def shade(rgb: Rgb) -> Rgb:
    """Give the second colour of a texture: darker, or lighter where it is dark already."""
    red, green, blue = rgb
    if red + green + blue > 200:
        return (red * 0.42, green * 0.42, blue * 0.42)
    return (red + 110, green + 110, blue + 110)


def with_article(words: str) -> str:
    """Put the indefinite article before some words."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
