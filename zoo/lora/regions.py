"""Segment a picture into canvas and figures. Pure."""

import numpy as np
from numpy.typing import NDArray

from zoo.detector import CONTRAST, Mask
from zoo.scenes import Picture

Field = NDArray[np.float64]


def canvas(picture: Picture) -> Field:
    """Read the background colour: the median along the border.

    Shapes: [H, W, 3] -> [3].
    """
    border = (picture[0], picture[-1], picture[:, 0], picture[:, -1])
    median: Field = np.median(np.concatenate(border).astype(float), axis=0)
    return median


def contrast(picture: Picture, colour: Field) -> Field:
    """Measure how far each pixel is from a colour, in its farthest channel.

    Shapes: [H, W, 3], [3] -> [H, W].
    """
    farthest: Field = np.abs(picture.astype(float) - colour).max(axis=-1)
    return farthest


def figures(picture: Picture) -> Mask:
    """Tell which pixels stand out from the canvas, as the checker does.

    Shapes: [H, W, 3] -> [H, W].
    """
    return np.asarray(contrast(picture, canvas(picture)) > CONTRAST)


def moved(mask: Mask, pixels: int) -> Mask:
    """Move a mask down and to the right by as many pixels; what leaves the picture is lost."""
    height, width = mask.shape
    padded = np.pad(mask, abs(pixels))
    top = abs(pixels) - pixels
    return padded[top : top + height, top : top + width]
