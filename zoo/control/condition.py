"""Draw the condition image of a scene, for each kind of ControlNet. Pure."""

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from zoo.detector import Mask
from zoo.scenes import Figure, Picture, Scene, draw
from zoo.scenes.outline import distance
from zoo.scenes.words import SIDE

#: Side of a square of the layout in pixels: one latent.
CELL = 4
#: An edge covers the pixels whose centres are nearer than this to the outline.
_EDGE = 0.9
#: Brightness of a figure whose base is at the top of the picture, and at the bottom.
_FARTHEST, _NEAREST = 80.0, 255.0


class Kind(StrEnum):
    """What a ControlNet is told of a picture."""

    #: Thin white outlines on black: where, how large and of which shape.
    EDGES = "edges"
    #: The mean colour of each square of 4x4 pixels: which colours, where.
    LAYOUT = "layout"
    #: Filled figures on black, brighter where they stand nearer, that is lower.
    DEPTH = "depth"


def _field(figure: Figure) -> NDArray[np.float64]:
    """Measure the distance of each pixel from the outline of a figure.

    Shapes: [64, 64], pixels, negative inside.
    """
    rows, columns = np.mgrid[0:SIDE, 0:SIDE] + 0.5
    return distance(figure.noun.shape, columns - figure.x, rows - figure.y, figure.radius)


def silhouette(figure: Figure) -> Mask:
    """Tell which pixels a figure covers.

    Shapes: [64, 64].
    """
    return np.asarray(_field(figure) < 0)


def base(mask: Mask) -> int:
    """Give the row below a figure, pixels from the top.

    The scenes have no third dimension and nothing hides anything. As on a floor seen from above,
    what stands lower counts as nearer.
    """
    return int(np.nonzero(mask)[0].max()) + 1


def cells(picture: Picture, side: int) -> NDArray[np.float64]:
    """Give the mean colour of each square of so many pixels.

    Shapes: [64, 64, 3] -> [64 / side, 64 / side, 3].
    """
    count = SIDE // side
    blocks = picture.astype(float).reshape(count, side, count, side, 3)
    return np.asarray(blocks.mean(axis=(1, 3)))


def _grey(values: NDArray[np.float64]) -> Picture:
    return np.repeat(values.round().astype(np.uint8)[..., None], 3, axis=-1)


def _edges(scene: Scene) -> Picture:
    lines = [np.abs(_field(figure)) < _EDGE for figure in scene.figures]
    return _grey(np.logical_or.reduce(lines) * 255.0)


def _layout(scene: Scene) -> Picture:
    means = cells(draw(scene), CELL).round().astype(np.uint8)
    return means.repeat(CELL, axis=0).repeat(CELL, axis=1)


def _depth(scene: Scene) -> Picture:
    picture = np.zeros((SIDE, SIDE))
    for figure in scene.figures:
        mask = silhouette(figure)
        picture[mask] = _FARTHEST + (_NEAREST - _FARTHEST) * base(mask) / SIDE
    return _grey(picture)


_VIEWS: dict[Kind, Callable[[Scene], Picture]] = {
    Kind.EDGES: _edges,
    Kind.LAYOUT: _layout,
    Kind.DEPTH: _depth,
}


def view(kind: Kind, scene: Scene) -> Picture:
    """Draw the condition picture of a scene.

    Shapes: returns [64, 64, 3].
    """
    return _VIEWS[kind](scene)
