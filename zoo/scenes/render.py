"""Render a scene to pixels, antialiased."""

import numpy as np
from numpy.typing import NDArray

from zoo.scenes.outline import Field, distance
from zoo.scenes.spec import Figure, Scene
from zoo.scenes.words import SIDE, Texture, shade

Picture = NDArray[np.uint8]


def _shaded(texture: Texture, x: Field, y: Field) -> NDArray[np.bool_]:
    """Tell which pixels take the second colour.

    Both periods cover at least one and a half latent cells of four pixels, or the autoencoder
    blurs them away.
    """
    if texture is Texture.STRIPED:
        return np.asarray((x + 2.0) % 8.0 < 4.0)
    return np.asarray((np.floor(x / 6.0) + np.floor(y / 6.0)) % 2 == 0)


def _filling(figure: Figure, x: Field, y: Field) -> NDArray[np.float64]:
    colour = np.asarray(figure.rgb)
    if figure.noun.texture is None:
        return np.broadcast_to(colour, (*x.shape, 3))
    mask = _shaded(figure.noun.texture, x, y)[..., None]
    return np.where(mask, np.asarray(shade(figure.rgb)), colour)


def draw(scene: Scene, scale: float = 1.0) -> Picture:
    """Draw a scene with antialiased edges, its figures and textures scaled with the picture.

    Shapes: returns [64 scale, 64 scale, 3].
    """
    side = round(SIDE * scale)
    image = np.empty((side, side, 3))
    image[:] = scene.canvas
    rows, columns = np.mgrid[0:side, 0:side] + 0.5
    for figure in scene.figures:
        across, down, radius = figure.x * scale, figure.y * scale, figure.radius * scale
        reach = int(radius * 1.1) + 2
        left, top = max(0, int(across) - reach), max(0, int(down) - reach)
        window = np.s_[top : int(down) + reach + 1, left : int(across) + reach + 1]
        x, y = columns[window] - across, rows[window] - down
        cover = np.clip(0.5 - distance(figure.noun.shape, x, y, radius), 0, 1)[..., None]
        fill = _filling(figure, x / scale, y / scale)
        image[window] = image[window] * (1 - cover) + fill * cover
    return np.clip(image, 0, 255).astype(np.uint8)
