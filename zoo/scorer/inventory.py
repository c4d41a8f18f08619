"""Auxiliary targets of the scorer: what a caption and its picture both contain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from zoo.scenes import Figure, Scene
from zoo.scenes.words import FIGURE_COLOURS, PLACES, SIDE, Colour, Relation, Shape, Size, Texture
from zoo.scorer.architecture import PATCH

Key = tuple[object, ...]

_INVERSE = {
    Relation.LEFT_OF: Relation.RIGHT_OF,
    Relation.RIGHT_OF: Relation.LEFT_OF,
    Relation.ABOVE: Relation.BELOW,
    Relation.BELOW: Relation.ABOVE,
}
_BACKGROUNDS = (None, *Colour)
_MOST_FIGURES = 5

_LOOKS: tuple[object, ...] = (*FIGURE_COLOURS, *Shape)
_KEYS: tuple[Key, ...] = (
    *(("background", each) for each in _BACKGROUNDS),
    *(("count", each) for each in range(1, _MOST_FIGURES + 1)),
    *product(["is"], FIGURE_COLOURS, Shape),
    *product(["filled"], Texture, _LOOKS),
    *product(["sized"], Size, _LOOKS),
    *product(["at"], PLACES, (*_LOOKS, *Texture, None)),
    *product(["lies"], Relation, _LOOKS),
)
_AT = {key: at for at, key in enumerate(_KEYS)}
#: Yes-or-no questions in all.
QUESTIONS = len(_KEYS)

_SHAPES, _COLOURS, _TEXTURES = (None, *Shape), (None, *FIGURE_COLOURS), (None, *Texture)
#: Classes of each field that a patch is asked for; class 0 is none.
PATCH_FIELDS = {"shape": len(_SHAPES), "colour": len(_COLOURS), "texture": len(_TEXTURES)}
_ROW = SIDE // PATCH


@dataclass(frozen=True, slots=True)
class Inventory:
    """The answers for a batch of scenes; what a caption leaves open is not asked."""

    #: Answers, 0 or 1, [B, QUESTIONS].
    answers: Tensor
    #: Which questions are asked, 0 or 1, [B, QUESTIONS].
    asked: Tensor
    #: Field -> class of the figure that covers each patch, [B, PATCHES].
    patches: dict[str, Tensor]


def take(scenes: Sequence[Scene]) -> Inventory:
    """Answer the questions for each scene."""
    answers = torch.zeros(len(scenes), QUESTIONS)
    asked = torch.zeros(len(scenes), QUESTIONS)
    for row, scene in enumerate(scenes):
        answers[row, [_AT[key] for key in set(_true(scene))]] = 1
        asked[row] = _ASKED[_topics(scene)]
    patches = torch.stack([_patches(scene) for scene in scenes])
    fields = dict(zip(PATCH_FIELDS, patches.unbind(dim=-1), strict=True))
    return Inventory(answers, asked, fields)


Topics = frozenset[object]


def _topics(scene: Scene) -> Topics:
    """Tell what a caption may leave open but this one does not: places, sizes, relations."""
    relations = {
        each for bond in scene.bonds for each in (bond.relation, _INVERSE.get(bond.relation))
    }
    topics: set[object] = {each for each in relations if each}
    if all(figure.place for figure in scene.figures):
        topics.add("at")
    if len(scene.figures) == 1 or scene.figures[0].place:
        topics.add("sized")
    return frozenset(topics)


class _Asked(dict[Topics, Tensor]):
    """The questions that a set of topics asks, worked out once."""

    def __missing__(self, topics: Topics) -> Tensor:
        optional = {"at", "sized"}
        rows = [
            key[1] in topics if key[0] == "lies" else key[0] not in optional or key[0] in topics
            for key in _KEYS
        ]
        self[topics] = torch.tensor(rows, dtype=torch.float32)
        return self[topics]


_ASKED = _Asked()


def _true(scene: Scene) -> Iterator[Key]:
    yield "background", scene.background
    yield "count", len(scene.figures)
    for figure in scene.figures:
        yield from _true_of(figure)
    for bond in scene.bonds:
        yield from _stated(scene, bond.relation, bond.figures)


def _looks(figure: Figure) -> tuple[object, object]:
    return figure.noun.colour, figure.noun.shape


def _true_of(figure: Figure) -> Iterator[Key]:
    noun = figure.noun
    yield "is", noun.colour, noun.shape
    for look in _looks(figure):
        if noun.texture:
            yield "filled", noun.texture, look
        if noun.size:
            yield "sized", noun.size, look
        if figure.place:
            yield "at", figure.place, look
    if figure.place:
        yield "at", figure.place, noun.texture


def _stated(scene: Scene, relation: Relation, figures: tuple[int, ...]) -> Iterator[Key]:
    first, *others = (scene.figures[index] for index in figures)
    for look in _looks(first):
        yield "lies", relation, look
    inverse = _INVERSE.get(relation)
    for look in _looks(others[0]) if inverse else ():
        yield "lies", inverse, look


def _patches(scene: Scene) -> Tensor:
    """Say for each patch which figure reaches over its middle.

    Shapes: [PATCHES, fields].
    """
    middles = (torch.arange(_ROW) + 0.5) * PATCH
    classes = torch.zeros(_ROW, _ROW, len(PATCH_FIELDS), dtype=torch.long)
    for figure in scene.figures:
        away = (middles[:, None] - figure.y) ** 2 + (middles[None, :] - figure.x) ** 2
        noun = figure.noun
        found = (
            _SHAPES.index(noun.shape),
            _COLOURS.index(noun.colour),
            _TEXTURES.index(noun.texture),
        )
        classes[away <= (figure.radius + 1) ** 2] = torch.tensor(found)
    return classes.flatten(0, 1)
