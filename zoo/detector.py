"""Detect figures in a picture: shape, colour, texture, size."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from zoo.scenes.outline import distance
from zoo.scenes.render import Picture
from zoo.scenes.words import FIGURE_COLOURS, RGB, Colour, Rgb, Shape, Texture, shade

Mask = NDArray[np.bool_]

#: A pixel stands out when one channel differs from the background by more than this.
CONTRAST = 48
#: Smaller specks are no figures, in pictures of any size; the smallest figure of the grammar covers
#: 80 pixels of 64 x 64.
MIN_AREA = 20
#: Share of a figure's own contrast at which its outline runs, were it drawn without noise.
OUTLINE = 0.5
#: Share of the inside of a figure that its rim never is: what is paler there is a second shade.
SECOND_SHADE = 0.2
#: Percentile of the contrast inside a figure of two shades that stands for the paler one.
PALER = 10
#: Spread of the liveliest channel inside a figure from which it counts as textured.
TEXTURE_SPREAD = 30.0
#: Share of that spread that lies between columns, from which it counts as striped.
STRIPED_SHARE = 0.5

#: Main colours first, then the second colours of textures, in the same order.
_MAIN = [RGB[each] for each in FIGURE_COLOURS]
_PALETTE = np.array([*_MAIN, *(shade(rgb) for rgb in _MAIN)])
_SHADE_WEIGHT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A figure read from pixels."""

    #: The palette colour of most of its pixels.
    colour: Colour
    #: Agreement with the template of each shape, intersection over union.
    scores: dict[Shape, float]
    #: Its filling; None is plain.
    texture: Texture | None
    #: Middle of its bounding box, pixels from the left.
    x: float
    #: Middle of its bounding box, pixels from the top.
    y: float
    #: Half the longer side of its bounding box, pixels.
    extent: float

    @property
    def shape(self) -> Shape:
        """The shape that fits best."""
        return max(self.scores, key=lambda shape: self.scores[shape])

    def scaled(self, factor: float) -> "Sighting":
        """Give what would be seen in a picture so many times as large."""
        x, y, extent = self.x * factor, self.y * factor, self.extent * factor
        return replace(self, x=x, y=y, extent=extent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that was read from a picture."""

    #: Median colour along the border.
    canvas: Rgb
    #: The figures, in reading order of their first pixel.
    figures: tuple[Sighting, ...]

    def scaled(self, factor: float) -> "Sight":
        """Give what would be seen in a picture so many times as large."""
        return replace(self, figures=tuple(figure.scaled(factor) for figure in self.figures))


def detect(picture: Picture) -> Sight:
    """Read the background and the figures of a picture.

    Shapes: [H, W, 3].
    """
    image = picture.astype(float)
    canvas = _canvas(image)
    figures = tuple(_sighting(image, mask) for mask in _components(image, canvas))
    red, green, blue = canvas.tolist()
    return Sight(canvas=(red, green, blue), figures=figures)


def masks(picture: Picture) -> list[Mask]:
    """Tell which pixels each figure of a picture covers.

    Shapes: [H, W, 3] -> n of [H, W].
    """
    image = picture.astype(float)
    return list(_components(image, _canvas(image)))


def _canvas(image: NDArray[np.float64]) -> NDArray[np.float64]:
    border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    return np.asarray(np.median(border, axis=0))


def _components(image: NDArray[np.float64], canvas: NDArray[np.float64]) -> Iterator[Mask]:
    contrast = np.abs(image - canvas).max(axis=-1)
    for region in _regions(contrast > CONTRAST):
        figure = _tightened(region, contrast)
        parts = list(_regions(figure))
        yield from parts if len(parts) > 1 else [figure]  # two may touch by their rims alone


def _regions(mask: Mask) -> Iterator[Mask]:
    labels, count = ndimage.label(mask)
    regions = (labels == number for number in range(1, count + 1))
    return (region for region in regions if region.sum() >= MIN_AREA)


def _tightened(mask: Mask, contrast: NDArray[np.float64]) -> Mask:
    """Take off the antialiased rim, less than half covered, and no shade of the figure with it."""
    inside = ndimage.binary_erosion(mask)
    kept = mask & (contrast > OUTLINE * np.median(contrast[mask]))
    if (inside & ~kept).sum() > SECOND_SHADE * inside.sum():
        kept = mask & (contrast > OUTLINE * np.percentile(contrast[inside], PALER))
    return np.asarray(kept)


def _sighting(image: NDArray[np.float64], mask: Mask) -> Sighting:
    core = ndimage.binary_erosion(mask)
    core = core if core.sum() >= 12 else mask
    rows, columns = np.nonzero(mask)
    left, right, top, bottom = columns.min(), columns.max() + 1, rows.min(), rows.max() + 1
    return Sighting(
        colour=_colour(image[core]),
        scores=_scores(mask),
        texture=_texture(image, core),
        x=float(left + right) / 2,
        y=float(top + bottom) / 2,
        extent=float(max(right - left, bottom - top)) / 2,
    )


def _colour(pixels: NDArray[np.float64]) -> Colour:
    """Let each pixel vote for the nearest colour, those nearest a shade with less weight."""
    nearest = ((pixels[:, None] - _PALETTE) ** 2).sum(axis=-1).argmin(axis=1)
    votes = np.bincount(nearest, minlength=len(_PALETTE)).astype(float)
    main, shades = votes.reshape(2, -1)
    return FIGURE_COLOURS[int((main + _SHADE_WEIGHT * shades).argmax())]


def _texture(image: NDArray[np.float64], core: Mask) -> Texture | None:
    channel = int(image[core].std(axis=0).argmax())
    values = image[core][:, channel]
    if values.std() <= TEXTURE_SPREAD:
        return None
    columns = np.nonzero(core)[1]
    present, counts = np.unique(columns, return_counts=True)
    means = np.array([values[columns == column].mean() for column in present])
    between = (counts * (means - values.mean()) ** 2).sum() / len(values)
    return Texture.STRIPED if between / values.var() > STRIPED_SHARE else Texture.CHECKERED


@lru_cache
def _moments(shape: Shape) -> tuple[float, float]:
    """Measure a shape of radius 1: its area, and how far its centroid lies below its centre."""
    rows, columns = np.mgrid[-1.2:1.2:0.005, -1.2:1.2:0.005]
    inside = distance(shape, columns, rows, 1.0) < 0
    return float(inside.mean() * 2.4**2), float(rows[inside].mean())


def _scores(mask: Mask) -> dict[Shape, float]:
    return {shape: _agreement(shape, mask) for shape in Shape}


def _agreement(shape: Shape, mask: Mask) -> float:
    """Compare a mask with the shape of the same area and centroid."""
    area, below = _moments(shape)
    radius = float(np.sqrt(mask.sum() / area))
    down, right = ndimage.center_of_mass(mask)
    rows, columns = np.mgrid[0 : mask.shape[0], 0 : mask.shape[1]].astype(float)
    template = distance(shape, columns - right, rows - down + below * radius, radius) < 0
    return float((mask & template).sum() / (mask | template).sum())
