"""Ground-truth detection of a scene, and the share of a caption it shows."""

from zoo.checker import compare
from zoo.detector import Sight, Sighting
from zoo.scenes import Figure, Scene
from zoo.scenes.words import EXTENT, Shape


def sight_of(scene: Scene) -> Sight:
    """Give what the detector would read from a flawless picture of a scene."""
    return Sight(canvas=scene.canvas, figures=tuple(_sighting(each) for each in scene.figures))


def share(shown: Scene, said: Scene) -> float:
    """Give the share of the parts of one scene's caption that another scene shows."""
    return compare(sight_of(shown), said).share


def _sighting(figure: Figure) -> Sighting:
    noun = figure.noun
    return Sighting(
        colour=noun.colour,
        scores={shape: float(shape is noun.shape) for shape in Shape},
        texture=noun.texture,
        x=figure.x,
        y=figure.y,
        extent=figure.radius * EXTENT[noun.shape],
    )
