"""Exact checker: compare a picture with its caption, part by part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.optimize import linear_sum_assignment

from zoo.detector import Sight, Sighting, detect
from zoo.scenes import Bond, Figure, Picture, Scene
from zoo.scenes.words import EXTENT, PLACES, RGB, SIDE, Colour, Relation, Rgb, Size

#: A shape agrees when it fits this well, and no other fits better.
MIN_AGREEMENT = 0.6
#: Half the distance between neighbouring places: nearer to the named one than to any other.
PLACE_TOLERANCE = 8.0
#: How far one figure must lie to the side of the other, pixels between centres.
RELATION_MARGIN = 4.0
#: Radii half way from small to unnamed, and from unnamed to large.
SMALL_BELOW, LARGE_ABOVE = 10.5, 17.0


class Aspect(StrEnum):
    """What one check is about."""

    #: The named background.
    BACKGROUND = "background"
    #: As many figures as the caption says, no more.
    COUNT = "count"
    COLOUR = "colour"
    SHAPE = "shape"
    #: The named texture, or none.
    TEXTURE = "texture"
    #: The named size.
    SIZE = "size"
    #: The named place.
    PLACE = "place"
    #: A stated relation between figures.
    RELATION = "relation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that the caption says, and whether the picture shows it."""

    aspect: Aspect
    #: Whether the picture shows it.
    is_right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the caption says, part by part."""

    parts: tuple[Part, ...]

    @property
    def is_right(self) -> bool:
        """Every part is right: the strict pass."""
        return all(part.is_right for part in self.parts)

    @property
    def share(self) -> float:
        """Share of the parts that are right."""
        return sum(part.is_right for part in self.parts) / len(self.parts)


def check(picture: Picture, scene: Scene) -> Report:
    """Compare a picture with all that the caption of a scene says; unnamed things are free.

    A larger picture is read as it is, and what was seen is measured in the scene's own pixels.
    """
    return compare(detect(picture).scaled(SIDE / len(picture)), scene)


def compare(sight: Sight, scene: Scene) -> Report:
    """Compare what was seen with all that the caption of a scene says."""
    seen = _matched(scene.figures, sight.figures)
    parts = [Part(aspect=Aspect.COUNT, is_right=len(sight.figures) == len(scene.figures))]
    if scene.background:
        named = _nearest(sight.canvas) is scene.background
        parts.append(Part(aspect=Aspect.BACKGROUND, is_right=named))
    for figure, sighting in zip(scene.figures, seen, strict=True):
        parts.extend(_figure_parts(figure, sighting))
    for bond in scene.bonds:
        parts.append(Part(aspect=Aspect.RELATION, is_right=_holds(bond, seen)))
    return Report(parts=tuple(parts))


def _nearest(canvas: Rgb) -> Colour:
    return min(RGB, key=lambda colour: _squared_distance(RGB[colour], canvas))


def _squared_distance(one: Rgb, other: Rgb) -> float:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _matched(
    figures: Sequence[Figure], sightings: Sequence[Sighting]
) -> tuple[Sighting | None, ...]:
    """Give each figure the sighting that suits it, each sighting once, at least total misfit."""
    misfits = np.array([[_misfit(figure, each) for each in sightings] for figure in figures])
    pairs = zip(*linear_sum_assignment(misfits.reshape(len(figures), -1)), strict=True)
    found = {int(row): sightings[int(column)] for row, column in pairs}
    return tuple(found.get(row) for row in range(len(figures)))


def _misfit(figure: Figure, sighting: Sighting) -> float:
    colour = 2.0 * (sighting.colour is not figure.noun.colour)
    shape = 1.5 * (sighting.shape is not figure.noun.shape)
    return colour + shape + min(2.0, _offset(figure, sighting) / 16)


def _offset(figure: Figure, sighting: Sighting) -> float:
    """Measure how far a sighting is from the named place, along the worse axis."""
    if figure.place is None:
        return 0.0
    x, y = PLACES[figure.place]
    return max(abs(sighting.x - x), abs(sighting.y - y))


def _figure_parts(figure: Figure, seen: Sighting | None) -> Iterator[Part]:
    noun = figure.noun
    yield Part(aspect=Aspect.COLOUR, is_right=seen is not None and seen.colour is noun.colour)
    yield Part(aspect=Aspect.SHAPE, is_right=seen is not None and _has_shape(figure, seen))
    yield Part(aspect=Aspect.TEXTURE, is_right=seen is not None and seen.texture is noun.texture)
    if noun.size:
        yield Part(aspect=Aspect.SIZE, is_right=seen is not None and _has_size(figure, seen))
    if figure.place:
        is_there = seen is not None and _offset(figure, seen) <= PLACE_TOLERANCE
        yield Part(aspect=Aspect.PLACE, is_right=is_there)


def _has_shape(figure: Figure, seen: Sighting) -> bool:
    return seen.shape is figure.noun.shape and seen.scores[seen.shape] >= MIN_AGREEMENT


def _has_size(figure: Figure, seen: Sighting) -> bool:
    radius = seen.extent / EXTENT[figure.noun.shape]
    return radius < SMALL_BELOW if figure.noun.size is Size.SMALL else radius > LARGE_ABOVE


def _holds(bond: Bond, seen: Sequence[Sighting | None]) -> bool:
    points = [(each.x, each.y) for index in bond.figures if (each := seen[index])]
    if len(points) < len(bond.figures):
        return False
    if bond.relation is Relation.BETWEEN:
        return _is_between(*points)
    (x, y), (other_x, other_y) = points
    ahead = {
        Relation.LEFT_OF: other_x - x,
        Relation.RIGHT_OF: x - other_x,
        Relation.ABOVE: other_y - y,
        Relation.BELOW: y - other_y,
    }
    return ahead[bond.relation] > RELATION_MARGIN


def _is_between(
    middle: tuple[float, float], one: tuple[float, float], other: tuple[float, float]
) -> bool:
    """Tell whether the middle lies between two ends that are well apart along one axis."""
    axes = zip(middle, one, other, strict=True)
    return any(min(a, b) < m < max(a, b) and abs(a - b) > 18 for m, a, b in axes)
