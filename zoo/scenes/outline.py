"""Signed distance of pixels to the outline of a shape."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zoo.scenes.words import Shape

Field = NDArray[np.float64]


def _circle(x: Field, y: Field, radius: float) -> Field:
    return np.hypot(x, y) - radius * 0.95


def _square(x: Field, y: Field, radius: float) -> Field:
    return np.maximum(np.abs(x), np.abs(y)) - radius * 0.82


def _triangle(x: Field, y: Field, radius: float) -> Field:
    sides = np.abs(x) * 0.868 - (y + radius * 0.95) * 0.496
    return np.maximum(y - radius * 0.78, sides)


def _cross(x: Field, y: Field, radius: float) -> Field:
    across, down, width, length = np.abs(x), np.abs(y), radius * 0.30, radius * 0.92
    upright = np.maximum(across - width, down - length)
    return np.minimum(upright, np.maximum(across - length, down - width))


def _ring(x: Field, y: Field, radius: float) -> Field:
    return np.abs(np.hypot(x, y) - radius * 0.70) - radius * 0.25


def _star(x: Field, y: Field, radius: float) -> Field:
    fifth = 2 * np.pi / 5
    angle = np.abs((np.arctan2(x, -y) + fifth / 2) % fifth - fifth / 2)
    reach = np.hypot(x, y)
    along, aside = reach * np.cos(angle), reach * np.sin(angle)
    tip, notch = radius * 1.05, radius * 0.47
    edge_x, edge_y = notch * np.cos(fifth / 2) - tip, notch * np.sin(fifth / 2)
    distance: Field = ((along - tip) * edge_y - aside * edge_x) / np.hypot(edge_x, edge_y)
    return distance


_OUTLINES: dict[Shape, Callable[[Field, Field, float], Field]] = {
    Shape.CIRCLE: _circle,
    Shape.SQUARE: _square,
    Shape.TRIANGLE: _triangle,
    Shape.STAR: _star,
    Shape.CROSS: _cross,
    Shape.RING: _ring,
}


def distance(shape: Shape, x: Field, y: Field, radius: float) -> Field:
    """Measure the signed distance to the outline, negative inside.

    Shapes: x and y alike; the result is the same.
    Units: pixels from the centre of the figure.
    """
    return _OUTLINES[shape](x, y, radius)
