"""Measure how far a picture follows its condition. Pure; reads pixels alone."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.optimize import linear_sum_assignment

from zoo.control.condition import Kind, base, cells, silhouette
from zoo.detector import CONTRAST, Mask, masks
from zoo.scenes import Picture, Scene, draw

#: From this agreement on a condition is met.
PASS = {Kind.EDGES: 0.8, Kind.LAYOUT: 0.8, Kind.DEPTH: 0.7}

#: The rule in words.
RULES = {
    Kind.EDGES: "at least 80 % of the outline pixels of the picture's figures lie within 1.5 "
    "pixels of the condition's, and 80 % of the condition's within 1.5 pixels of the picture's",
    Kind.LAYOUT: "at least 80 % of the squares of 8x8 pixels that show a figure, and 80 % of the "
    "others, have the mean colour of the condition, give or take 48 of 255 in each channel",
    Kind.DEPTH: "as many figures as the condition has, each over its region with an intersection "
    "over union of at least 0.7, and their bases in the same order",
}

#: How far an outline may be off, pixels between centres.
_EDGE_TOLERANCE = 1.5
#: Side of the squares that are compared, pixels; twice those of the condition.
_LAYOUT_CELL = 8
#: Bases nearer to each other than this have no order, pixels.
_SAME_BASE = 3


def agreement(kind: Kind, picture: Picture, scene: Scene) -> float:
    """Measure how far a picture follows the condition of a scene, from 0 to 1."""
    return _MEASURES[kind](picture, scene)


def is_met(kind: Kind, picture: Picture, scene: Scene) -> bool:
    """Apply the pass rule."""
    return agreement(kind, picture, scene) >= PASS[kind]


def _rim(figures: Sequence[Mask]) -> Mask:
    rims = [mask & ~ndimage.binary_erosion(mask) for mask in figures]
    return np.asarray(np.logical_or.reduce(rims))


def _share_near(rim: Mask, other: Mask) -> float:
    """Give the share of a rim that lies near the other one."""
    return float((ndimage.distance_transform_edt(~other)[rim] <= _EDGE_TOLERANCE).mean())


def _edges(picture: Picture, scene: Scene) -> float:
    seen = masks(picture)
    if not seen:
        return 0.0
    target, found = _rim([silhouette(figure) for figure in scene.figures]), _rim(seen)
    return min(_share_near(target, found), _share_near(found, target))


def _layout(picture: Picture, scene: Scene) -> float:
    """Take the worse of figures and ground: the ground alone fills most cells."""
    target = cells(draw(scene), _LAYOUT_CELL)
    agrees = np.abs(cells(picture, _LAYOUT_CELL) - target).max(axis=-1) <= CONTRAST
    shows_figure = np.abs(target - np.asarray(scene.canvas)).max(axis=-1) > CONTRAST
    parts = [agrees[part].mean() for part in (shows_figure, ~shows_figure) if part.any()]
    return float(min(parts))


def _overlaps(regions: Sequence[Mask], seen: Sequence[Mask]) -> NDArray[np.float64]:
    shares = [[(one & two).sum() / (one | two).sum() for two in seen] for one in regions]
    return np.array(shares)


def _are_in_order(regions: Sequence[Mask], seen: Sequence[Mask]) -> bool:
    bases = [(base(one), base(two)) for one, two in zip(regions, seen, strict=True)]
    ahead = [(a - b, c - d) for (a, c), (b, d) in combinations(bases, 2)]
    return all(wanted * got > 0 for wanted, got in ahead if abs(wanted) >= _SAME_BASE)


def _depth(picture: Picture, scene: Scene) -> float:
    """Give the worst overlap; none if figures are missing, too many or out of order."""
    regions, seen = [silhouette(figure) for figure in scene.figures], masks(picture)
    if len(seen) != len(regions):
        return 0.0
    overlaps = _overlaps(regions, seen)
    rows, columns = linear_sum_assignment(overlaps, maximize=True)
    if not _are_in_order(regions, [seen[column] for column in columns]):
        return 0.0
    return float(overlaps[rows, columns].min())


_MEASURES: dict[Kind, Callable[[Picture, Scene], float]] = {
    Kind.EDGES: _edges,
    Kind.LAYOUT: _layout,
    Kind.DEPTH: _depth,
}
