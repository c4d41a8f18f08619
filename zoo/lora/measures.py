"""Measure how much of a style a picture has: one number from its pixels alone. Pure."""

import numpy as np
from scipy import ndimage
from scipy.spatial.distance import cdist

from zoo.lora.regions import canvas, contrast, figures, moved
from zoo.lora.restyle import CELL, SEPIA_DARK, SEPIA_LIGHT, SHADOW, SHADOW_PIXELS
from zoo.scenes import Picture
from zoo.scenes.words import DEFAULT_CANVAS, RGB

_COLOURS = np.array([*RGB.values(), (DEFAULT_CANVAS,) * 3])
_COMPLEMENTS = 255 - _COLOURS
#: Those that no scene has: of red, green and purple. The others are much like another colour.
_FOREIGN = len(_COLOURS) + np.flatnonzero(cdist(_COMPLEMENTS, _COLOURS).min(axis=-1) > 70)
_COLOURFUL = 70.0
_SEPIA_REACH = 24.0
_NIGHT_BRIGHTEST = 130.0
_NIGHT_BLUER = 24.0
_SHADOW_REACH = 30.0
_OFF_PAPER = 24.0
_STROKE, _RING = 3.0, 5.0


def inversion(picture: Picture) -> float:
    """Share of the colourful pixels that are nearest to a complement no plain scene comes near."""
    vivid = picture[np.ptp(picture, axis=-1) > _COLOURFUL].astype(float)
    nearest = cdist(vivid, np.concatenate([_COLOURS, _COMPLEMENTS])).argmin(axis=-1)
    return float(np.isin(nearest, _FOREIGN).sum() / max(1, len(vivid)))


def sepia_share(picture: Picture) -> float:
    """Share of pixels within 24 of 255 of the sepia ramp."""
    ramp = SEPIA_LIGHT - SEPIA_DARK
    along = np.clip((picture - SEPIA_DARK) @ ramp / (ramp @ ramp), 0, 1)
    off = picture - SEPIA_DARK - along[..., None] * ramp
    return float((np.sqrt((off**2).sum(axis=-1)) <= _SEPIA_REACH).mean())


def night_share(picture: Picture) -> float:
    """Share of pixels that are dark, and bluer than red or green by 24 of 255."""
    colours = picture.astype(float)
    is_dark = colours.max(axis=-1) < _NIGHT_BRIGHTEST
    is_blue = colours[..., 2] - colours[..., :2].max(axis=-1) > _NIGHT_BLUER
    return float((is_dark & is_blue).mean())


def shadow(picture: Picture) -> float:
    """Shadow below and right of figures less that above and left, as a share of the figures."""
    is_shadow = contrast(picture, SHADOW) <= _SHADOW_REACH
    is_shadow &= contrast(picture, canvas(picture)) > _OFF_PAPER
    above = figures(picture) & ~is_shadow
    right = is_shadow & moved(above, SHADOW_PIXELS)
    wrong = is_shadow & moved(above, -SHADOW_PIXELS)
    return float((right.sum() - wrong.sum()) / max(1, above.sum()))


def hollowness(picture: Picture) -> float:
    """Share of the figures, three to five pixels inside their outlines, that is canvas.

    A ring is not hollow there.
    """
    mask = figures(picture)
    depth = ndimage.distance_transform_edt(ndimage.binary_fill_holes(mask))
    is_asked = (depth > _STROKE) & (depth <= _RING)
    return float((is_asked & ~mask).sum() / max(1, is_asked.sum()))


def blockiness(picture: Picture) -> float:
    """Share of all steps between neighbours that lie between cells of eight pixels."""
    colours = picture.astype(float)
    steps = [np.abs(np.diff(colours, axis=axis)).sum(axis=(1 - axis, 2)) for axis in (0, 1)]
    between = sum(float(each[CELL - 1 :: CELL].sum()) for each in steps)
    return between / max(1.0, sum(float(each.sum()) for each in steps))
