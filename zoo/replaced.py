"""Choose the figure that an edit replaces, and check the result. Pure; imports no torch."""

from dataclasses import dataclass
from random import Random

import numpy as np

from zoo.detector import Mask, detect
from zoo.scenes import Noun, Picture, Scene, held_out
from zoo.scenes.words import CLASHES, FIGURE_COLOURS, SIDE, Colour, Shape, with_article

#: Scenes of one figure, of any size, at any place.
_LEVEL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A figure to be replaced."""

    #: What is there before.
    scene: Scene
    #: What shall be there.
    noun: Noun
    #: Room that the mask leaves around the figure, pixels.
    margin: float = 4.0
    #: Whether the prompt says where the figure is, if the scene's caption did.
    says_place: bool = False

    @property
    def prompt(self) -> str:
        """Ask for the new figure on the background that is there."""
        place, background = self.scene.figures[0].place, self.scene.background
        where = f" {place}" if self.says_place and place else ""
        ground = f" on {with_article(background)} background" if background else ""
        return self.noun.phrase() + where + ground

    @property
    def mask(self) -> Mask:
        """Cover a square around the old figure.

        Shapes: [64, 64].
        """
        return self.mask_at(1)

    def mask_at(self, scale: int) -> Mask:
        """Cover the same square of a larger picture.

        Shapes: [64 scale, 64 scale].
        """
        figure, side = self.scene.figures[0], SIDE * scale
        rows, columns = (np.mgrid[0:side, 0:side] + 0.5) / scale
        off = np.maximum(np.abs(columns - figure.x), np.abs(rows - figure.y))
        return np.asarray(off <= figure.radius + self.margin)


def _stands_out(colour: Colour, scene: Scene) -> bool:
    """Tell whether a colour is new to a scene and easy to see in it."""
    taken = (scene.figures[0].noun.colour, scene.background, Colour.WHITE)
    return colour not in taken and frozenset({colour, scene.background}) not in CLASHES


def tasks(n: int, seed: int) -> list[Task]:
    """Choose n held-out scenes and, for each, a figure of another colour and shape."""
    rng = Random(f"inpaint/{seed}")
    chosen = []
    for scene in held_out(_LEVEL, n, seed):
        old = scene.figures[0].noun
        shape = rng.choice([each for each in Shape if each is not old.shape])
        colour = rng.choice([each for each in FIGURE_COLOURS if _stands_out(each, scene)])
        chosen.append(Task(scene=scene, noun=Noun(shape=shape, colour=colour, size=old.size)))
    return chosen


def has_new_figure(picture: Picture, task: Task) -> bool:
    """Tell whether a picture of any size shows a figure of the prompted colour under the mask."""
    mask, seen = task.mask, detect(picture).scaled(SIDE / len(picture)).figures
    under = [figure for figure in seen if mask[int(figure.y), int(figure.x)]]
    return any(figure.colour is task.noun.colour for figure in under)
