"""Caption a scene from its figures and relations."""

from collections.abc import Sequence
from itertools import groupby

from zoo.scenes import Figure, Scene
from zoo.scenes.words import NUMBERS, Relation, with_article


def caption_of(scene: Scene) -> str:
    """Word a scene from its figures and bonds, exactly as the grammar does."""
    caption = _bound(scene) if scene.bonds else _listed(_phrases(scene.figures))
    if scene.background:
        caption += f" on {with_article(scene.background)} background"
    return caption


def _bound(scene: Scene) -> str:
    (bond,) = scene.bonds
    first, *others = (scene.figures[index].noun.phrase() for index in bond.figures)
    if bond.relation is Relation.BETWEEN:
        return f"{first} between {others[0]} and {others[1]}"
    return f"{first} {bond.relation} {others[0]}"


def _phrases(figures: Sequence[Figure]) -> list[str]:
    alike = groupby(figures, key=lambda figure: (figure.noun, figure.place))
    return [_phrase(list(group)) for _, group in alike]


def _phrase(group: Sequence[Figure]) -> str:
    noun, place = group[0].noun, group[0].place
    count = len(group)
    phrase = f"{NUMBERS[count]} {noun.words(plural=True)}" if count > 1 else noun.phrase()
    return f"{phrase} {place}" if place else phrase


def _listed(phrases: Sequence[str]) -> str:
    *rest, last = phrases
    return f"{', '.join(rest)} and {last}" if rest else last
