"""Render a picture in each style, as pure functions of its pixels."""

from itertools import product

import numpy as np
from scipy import ndimage

from zoo.lora.regions import Field, canvas, figures, moved
from zoo.scenes import Picture

#: Both ends of the sepia ramp, as far from the scenes' own yellow, orange and black as it goes.
SEPIA_DARK = np.array([62.0, 40.0, 16.0])
SEPIA_LIGHT = np.array([242.0, 180.0, 40.0])
#: The sky at night.
NIGHT_SKY = np.array([19.0, 34.0, 92.0])
#: The paper that figures are cut for, and their shadow on it.
PAPER = np.array([245.0, 245.0, 245.0])
SHADOW = np.array([150.0, 150.0, 150.0])
#: How far a shadow falls, down and to the right: one latent cell.
SHADOW_PIXELS = 4
#: Side of a mosaic cell: two latent cells.
CELL = 8

_LUMA = np.array([0.299, 0.587, 0.114])
_STROKE = 2.5
_CELL_SHARE = 0.35


def inverted(picture: Picture) -> Picture:
    """Turn every colour into its complement."""
    return np.asarray(255 - picture)


def sepia(picture: Picture) -> Picture:
    """Tone the picture in browns, by its brightness alone."""
    light = (picture @ _LUMA)[..., None] / 255
    return _rounded(SEPIA_DARK + (SEPIA_LIGHT - SEPIA_DARK) * light)


def night(picture: Picture) -> Picture:
    """Let the figures shine before a deep blue sky."""
    return _rounded(np.where(figures(picture)[..., None], picture, NIGHT_SKY))


def papercut(picture: Picture) -> Picture:
    """Lay the figures on white paper, where they throw a shadow down and to the right."""
    above = figures(picture)
    shaded = moved(above, SHADOW_PIXELS)[..., None]
    return _rounded(np.where(above[..., None], picture, np.where(shaded, SHADOW, PAPER)))


def outline(picture: Picture) -> Picture:
    """Empty the figures: a thin stroke is left of each."""
    is_inner = ndimage.distance_transform_edt(figures(picture)) > _STROKE
    return _rounded(np.where(is_inner[..., None], canvas(picture), picture))


def pixel(picture: Picture) -> Picture:
    """Draw the figures from cells of eight by eight pixels, each canvas or figure."""
    mask = figures(picture)
    mosaic = np.empty_like(picture)
    mosaic[:] = canvas(picture)
    for top, left in product(*(range(0, side, CELL) for side in mask.shape)):
        cell = np.s_[top : top + CELL, left : left + CELL]
        if mask[cell].mean() > _CELL_SHARE:
            mosaic[cell] = np.median(picture[cell][mask[cell]], axis=0)
    return mosaic


def _rounded(values: Field) -> Picture:
    return np.asarray(np.clip(values, 0, 255).round().astype(np.uint8))
