"""Draw flawed pictures of a scene, as a weak generator might."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from zoo.scenes import Figure, Picture, Scene, draw
from zoo.scenes.outline import Field, distance
from zoo.scenes.words import SIDE, Shape
from zoo.scorer.changes import change

Image = NDArray[np.float64]
#: Signed distance to an outline: x and y from the centre, and a radius.
Outline = Callable[[Field, Field, float], Field]

_MOST_CHANGES = 3


def flawed(scene: Scene, rng: Random) -> Picture:
    """Draw a scene with one flaw or more; now and then it is too slight to matter."""
    for _ in range(rng.choice([0, 0, 1, 1, 2, _MOST_CHANGES])):
        scene = change(scene, rng)[1]
    flaws = rng.sample([_missing, _misshapen, _strayed, _faded], k=rng.choice([0, 1, 1, 2]))
    image = _drawn(scene, flaws, rng)
    if rng.random() < 0.3:
        image = ndimage.gaussian_filter(image, sigma=(*[rng.uniform(0.5, 2.0)] * 2, 0))
    return np.clip(image, 0, 255).astype(np.uint8)


Flaw = Callable[[Scene, Image, Random], tuple[Scene, Image]]


def _drawn(scene: Scene, flaws: Sequence[Flaw], rng: Random) -> Image:
    """Take flawed figures out of the scene, draw what is left, and put them on top.

    The layer of flawed figures holds colours times cover, and cover.
    """
    layer = np.zeros((SIDE, SIDE, 4))
    for flaw in flaws:
        if scene.figures:
            scene, layer = flaw(scene, layer, rng)
    image: Image = draw(scene) * (1 - layer[..., 3:]) + layer[..., :3]
    return image


def _taken(scene: Scene, rng: Random) -> tuple[Figure, Scene]:
    at = rng.randrange(len(scene.figures))
    rest = (*scene.figures[:at], *scene.figures[at + 1 :])
    return scene.figures[at], replace(scene, figures=rest)


def _missing(scene: Scene, layer: Image, rng: Random) -> tuple[Scene, Image]:
    return _taken(scene, rng)[1], layer


def _misshapen(scene: Scene, layer: Image, rng: Random) -> tuple[Scene, Image]:
    figure, rest = _taken(scene, rng)
    outline = rng.choice([_blob, _between_shapes])(figure, rng)
    return rest, _painted(layer, figure, outline, 1.0)


def _strayed(scene: Scene, layer: Image, rng: Random) -> tuple[Scene, Image]:
    """Add a figure that nobody asked for, perhaps upon another."""
    figure = rng.choice(scene.figures)
    x, y = rng.uniform(8, SIDE - 8), rng.uniform(8, SIDE - 8)
    stray = replace(figure, x=x, y=y, radius=rng.uniform(5, 11))
    return scene, _painted(layer, stray, _blob(stray, rng), 1.0)


def _faded(scene: Scene, layer: Image, rng: Random) -> tuple[Scene, Image]:
    """Let the background shine through a figure."""
    figure, rest = _taken(scene, rng)
    return rest, _painted(layer, figure, _own(figure), rng.uniform(0.15, 0.7))


def _own(figure: Figure) -> Outline:
    return lambda x, y, radius: distance(figure.noun.shape, x, y, radius)


def _blob(figure: Figure, rng: Random) -> Outline:
    """Make a closed wavy line about a circle."""
    waves = [(k, rng.uniform(0, 0.22) / k, rng.uniform(0, math.tau)) for k in (1, 2, 3, 4)]

    def outline(x: Field, y: Field, radius: float) -> Field:
        angle = np.arctan2(y, x)
        reach = sum(height * np.cos(k * angle + phase) for k, height, phase in waves)
        away: Field = np.hypot(x, y) - radius * (0.85 + reach)
        return away

    return outline


def _between_shapes(figure: Figure, rng: Random) -> Outline:
    """Mix two outlines."""
    other = rng.choice([shape for shape in Shape if shape is not figure.noun.shape])
    share = rng.uniform(0.25, 0.75)

    def outline(x: Field, y: Field, radius: float) -> Field:
        own = distance(figure.noun.shape, x, y, radius)
        return (1 - share) * own + share * distance(other, x, y, radius)

    return outline


def _painted(layer: Image, figure: Figure, outline: Outline, strength: float) -> Image:
    rows, columns = np.mgrid[0:SIDE, 0:SIDE] + 0.5
    field = outline(columns - figure.x, rows - figure.y, figure.radius)
    cover = np.clip(0.5 - field, 0, 1)[..., None] * strength
    colour = np.array([*figure.rgb, 1.0])
    mixed: Image = layer * (1 - cover) + colour * cover
    return mixed
