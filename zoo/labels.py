"""Per-token targets for training text encoders on captions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor

from zoo.scenes import Figure, Scene
from zoo.scenes.words import PLACES, Colour, Relation, Shape, Size, Texture

#: Most figures of a scene; as many tokens after the end token stand for one each.
SLOTS = 5

#: Label of what is not asked.
IGNORED = -100

_SHAPES = (None, *Shape)
_COLOURS = (None, *Colour)
_SIZES = (None, *Size)
_TEXTURES = (None, *Texture)
_PLACES = (None, *PLACES)
#: The part a figure plays in a relation: none, its subject, or what the subject relates to.
_ROLES = (None, *((relation, is_subject) for relation in Relation for is_subject in (True, False)))

#: Classes of each field that a slot is asked for.
SLOT_FIELDS = {
    "shape": len(_SHAPES),
    "colour": len(_COLOURS),
    "size": len(_SIZES),
    "texture": len(_TEXTURES),
    "place": len(_PLACES),
    "role": len(_ROLES),
}
#: Fields that a noun is asked for where it stands: what was said before it.
NOUN_FIELDS = ("shape", "colour", "size", "texture")
#: Classes of each field that the pooled vector is asked for.
POOLED_FIELDS = {"background": len(_COLOURS), "count": SLOTS + 1}


@dataclass(frozen=True, slots=True)
class Labels:
    """The answers for a batch of captions."""

    #: Field -> class of each slot, [B, SLOTS]; class 0 is none.
    slots: dict[str, Tensor]
    #: Field -> class of each token, [B, T]; IGNORED but on nouns. Empty where none is asked.
    nouns: dict[str, Tensor]
    #: Field -> class of the whole caption, [B].
    pooled: dict[str, Tensor]


def _classes(figure: Figure, role: tuple[Relation, bool] | None) -> dict[str, int]:
    noun = figure.noun
    return {
        "shape": _SHAPES.index(noun.shape),
        "colour": _COLOURS.index(noun.colour),
        "size": _SIZES.index(noun.size),
        "texture": _TEXTURES.index(noun.texture),
        "place": _PLACES.index(figure.place),
        "role": _ROLES.index(role),
    }


def _role(scene: Scene, index: int) -> tuple[Relation, bool] | None:
    for bond in scene.bonds:
        if index in bond.figures:
            return bond.relation, index == bond.figures[0]
    return None


def _named(answers: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    """Keep one answer of figures that share a noun: "three red circles" names them once."""
    return [
        next(same) for _, same in groupby(answers, lambda each: (each["shape"], each["colour"]))
    ]


def asked(scenes: Sequence[Scene]) -> Labels:
    """Say what scenes ask for, whatever the words of their captions; no token is asked."""
    slots = {name: torch.zeros(len(scenes), SLOTS, dtype=torch.long) for name in SLOT_FIELDS}
    for row, scene in enumerate(scenes):
        for slot, answer in enumerate(_answers(scene)):
            for name, value in answer.items():
                slots[name][row, slot] = value
    pooled = {
        "background": torch.tensor([_COLOURS.index(scene.background) for scene in scenes]),
        "count": torch.tensor([len(scene.figures) for scene in scenes]),
    }
    return Labels(slots, {}, pooled)


def label(scenes: Sequence[Scene], ids: Tensor, noun_ids: Tensor) -> Labels:
    """Say what each caption means.

    Shapes: ids [B, T], noun_ids [N], the tokens that name a shape.
    """
    nouns = {name: torch.full(ids.shape, IGNORED) for name in NOUN_FIELDS}
    stands = torch.isin(ids, noun_ids)
    for row, scene in enumerate(scenes):
        places = stands[row].nonzero().flatten().tolist()
        for place, answer in zip(places, _named(_answers(scene)), strict=True):
            for name in NOUN_FIELDS:
                nouns[name][row, place] = answer[name]
    return replace(asked(scenes), nouns=nouns)


def _answers(scene: Scene) -> list[dict[str, int]]:
    return [_classes(each, _role(scene, at)) for at, each in enumerate(scene.figures)]
