"""Counterfactual scenes: change one word of a caption, and the picture with it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from random import Random

from zoo.scenes import Bond, Figure, Noun, Scene
from zoo.scenes.grammar import RADIUS
from zoo.scenes.layout import Point, at_place
from zoo.scenes.words import (
    CLASHES,
    FIGURE_COLOURS,
    NUMBERS,
    PLACES,
    QUADRANTS,
    RGB,
    SIDE,
    Colour,
    Relation,
    Rgb,
    Shape,
    Size,
    Texture,
)
from zoo.scorer.truth import share
from zoo.scorer.wording import caption_of


class Change(StrEnum):
    """The kind of word that differs."""

    COLOUR = "colour"
    SHAPE = "shape"
    TEXTURE = "texture"
    SIZE = "size"
    PLACE = "place"
    RELATION = "relation"
    COUNT = "count"
    BACKGROUND = "background"


#: What a change leaves of a scene, its caption not yet reworded; None where it does not apply.
Draft = Scene | None


def change(scene: Scene, rng: Random) -> tuple[Change, Scene]:
    """Change one word of a scene, of a kind drawn from those that apply, and its picture with it.

    The picture of each is wrong for the caption of the other.
    """
    return next(_changes(scene, rng))


def change_of(scene: Scene, kind: Change, rng: Random) -> Draft:
    """Change one word of one kind; None where the scene has no such word."""
    draft = _DRAFTS[kind](scene, rng)
    if draft is None:
        return None
    twin = replace(draft, caption=caption_of(draft))
    return twin if share(scene, twin) < 1 and share(twin, scene) < 1 else None


def _changes(scene: Scene, rng: Random) -> Iterator[tuple[Change, Scene]]:
    while True:
        for kind in rng.sample(list(Change), len(Change)):
            twin = change_of(scene, kind, rng)
            if twin is not None:
                yield kind, twin


def _alike(scene: Scene, rng: Random) -> list[int]:
    """Choose a figure, and all that the caption names in the same breath."""
    chosen = rng.choice(scene.figures).noun
    return [at for at, figure in enumerate(scene.figures) if figure.noun == chosen]


def _renamed(scene: Scene, which: Sequence[int], noun: Noun, rgb: Rgb | None = None) -> Draft:
    """Give figures another noun, unless another figure has it or it would not stand out."""
    others = [each.noun for at, each in enumerate(scene.figures) if at not in which]
    if any((each.shape, each.colour) == (noun.shape, noun.colour) for each in others):
        return None
    if not _is_visible(noun, scene.background):
        return None
    figures = list(scene.figures)
    for at in which:
        figures[at] = replace(figures[at], noun=noun, rgb=rgb or figures[at].rgb)
    return replace(scene, figures=tuple(figures))


def _is_visible(noun: Noun, background: Colour | None) -> bool:
    """Follow the grammar: what stands out from what, and what can carry a texture."""
    colour = noun.colour
    if background is None and colour is Colour.WHITE:
        return False
    if colour is background or frozenset({colour, background}) in CLASHES:
        return False
    if noun.texture is None:
        return True
    on_grey = background in (None, Colour.GRAY) and colour in (Colour.BLACK, Colour.WHITE)
    return not (noun.size is Size.SMALL or background is Colour.BLACK or on_grey)


def _near(rng: Random, colour: Colour, by: float = 12) -> Rgb:
    red, green, blue = (min(255.0, max(0.0, part + rng.uniform(-by, by))) for part in RGB[colour])
    return (red, green, blue)


def _recolour(scene: Scene, rng: Random) -> Draft:
    which = _alike(scene, rng)
    colour = rng.choice(FIGURE_COLOURS)
    noun = replace(scene.figures[which[0]].noun, colour=colour)
    return _renamed(scene, which, noun, _near(rng, colour))


def _reshape(scene: Scene, rng: Random) -> Draft:
    which = _alike(scene, rng)
    noun = replace(scene.figures[which[0]].noun, shape=rng.choice(list(Shape)))
    return _renamed(scene, which, noun)


def _retexture(scene: Scene, rng: Random) -> Draft:
    which = _alike(scene, rng)
    texture = rng.choice([None, *Texture])
    return _renamed(scene, which, replace(scene.figures[which[0]].noun, texture=texture))


def _resize(scene: Scene, rng: Random) -> Draft:
    """Change the size of the one figure of a scene; sizes mean little among several."""
    if len(scene.figures) > 1:
        return None
    (figure,) = scene.figures
    size = rng.choice([each for each in (None, *Size) if each is not figure.noun.size])
    radius = rng.uniform(*RADIUS[size])
    x, y = (min(max(value, radius + 1), SIDE - radius - 1) for value in (figure.x, figure.y))
    draft = _renamed(scene, [0], replace(figure.noun, size=size))
    if draft is None:
        return None
    (renamed,) = draft.figures
    return replace(draft, figures=(replace(renamed, radius=radius, x=x, y=y),))


def _move(scene: Scene, rng: Random) -> Draft:
    at = rng.randrange(len(scene.figures))
    figure = scene.figures[at]
    if figure.place is None:
        return None
    free = PLACES if len(scene.figures) == 1 else QUADRANTS
    taken = {each.place for each in scene.figures}
    places = [place for place in free if place not in taken]
    if not places:
        return None
    place = rng.choice(places)
    x, y = at_place(rng, place, figure.radius, 2.0)
    return _with(scene, at, replace(figure, place=place, x=x, y=y))


def _with(scene: Scene, at: int, figure: Figure) -> Scene:
    return replace(scene, figures=(*scene.figures[:at], figure, *scene.figures[at + 1 :]))


#: Mirrors and turns of a picture; each keeps figures apart and inside.
_TURNS: tuple[Callable[[float, float], Point], ...] = (
    lambda x, y: (SIDE - x, y),
    lambda x, y: (x, SIDE - y),
    lambda x, y: (y, x),
    lambda x, y: (SIDE - y, SIDE - x),
)


def _relate(scene: Scene, rng: Random) -> Draft:
    """State another relation, and mirror or turn the figures so that it alone holds."""
    if not scene.bonds or scene.bonds[0].relation is Relation.BETWEEN:
        return None
    (bond,) = scene.bonds
    others = [each for each in Relation if each not in (Relation.BETWEEN, bond.relation)]
    bonds = (Bond(relation=rng.choice(others), figures=bond.figures),)
    for turn in _TURNS:
        points = [turn(figure.x, figure.y) for figure in scene.figures]
        put = zip(scene.figures, points, strict=True)
        figures = tuple(replace(figure, x=x, y=y) for figure, (x, y) in put)
        draft = replace(scene, figures=figures, bonds=bonds)
        if share(draft, draft) == 1:
            return draft
    return None


def _recount(scene: Scene, rng: Random) -> Draft:
    """Add one to several alike, or take one away, so that there still are several."""
    which = _alike(scene, rng)
    if len(which) == 1:
        return None
    if rng.random() < 0.5 and len(which) > 2:
        gone = rng.choice(which)
        kept = (figure for at, figure in enumerate(scene.figures) if at != gone)
        return replace(scene, figures=tuple(kept))
    if len(which) + 1 not in NUMBERS or len(scene.figures) == max(NUMBERS):
        return None
    added = _one_more(scene, scene.figures[which[0]], rng)
    if added is None:
        return None
    figures = list(scene.figures)
    figures.insert(which[-1], added)
    return replace(scene, figures=tuple(figures))


def _one_more(scene: Scene, like: Figure, rng: Random) -> Figure | None:
    """Find room for one more figure like another."""
    radius = rng.uniform(8.0, 9.5)
    for _ in range(60):
        x, y = (rng.uniform(radius + 1, SIDE - radius - 1) for _ in range(2))
        if all(_is_apart(x, y, radius, each) for each in scene.figures):
            return replace(like, x=x, y=y, radius=radius, rgb=_near(rng, like.noun.colour))
    return None


def _is_apart(x: float, y: float, radius: float, other: Figure) -> bool:
    return math.dist((x, y), (other.x, other.y)) >= (radius + other.radius) * 1.08 + 1.5


def _rebackground(scene: Scene, rng: Random) -> Draft:
    if scene.background is None:
        return None
    background = rng.choice(list(Colour))
    if not all(_is_visible(figure.noun, background) for figure in scene.figures):
        return None
    return replace(scene, background=background, canvas=_near(rng, background, 10))


_DRAFTS: dict[Change, Callable[[Scene, Random], Draft]] = {
    Change.COLOUR: _recolour,
    Change.SHAPE: _reshape,
    Change.TEXTURE: _retexture,
    Change.SIZE: _resize,
    Change.PLACE: _move,
    Change.RELATION: _relate,
    Change.COUNT: _recount,
    Change.BACKGROUND: _rebackground,
}
