"""Grammar of scenes: compose and caption a scene of each level of difficulty."""

from collections.abc import Callable, Sequence
from functools import cache
from random import Random

from zoo.scenes.layout import Point, at_place, in_a_row, related, scatter
from zoo.scenes.spec import Bond, Figure, Noun, Scene
from zoo.scenes.words import (
    CLASHES,
    DEFAULT_CANVAS,
    FIGURE_COLOURS,
    NUMBERS,
    PLACES,
    QUADRANTS,
    RGB,
    Colour,
    Relation,
    Rgb,
    Shape,
    Size,
    Texture,
    with_article,
)

LEVELS = (1, 2, 3, 4, 5)

_SHAPES, _TEXTURES = tuple(Shape), tuple(Texture)

#: Chance that the caption of a level names a background.
NAMED_BACKGROUND = {1: 0.0, 2: 0.5, 3: 0.5, 4: 0.5, 5: 0.7}

Span = tuple[float, float]

#: Radius in pixels by the size that the caption names.
RADIUS: dict[Size | None, Span] = {
    Size.SMALL: (8.0, 9.0),
    None: (12.0, 16.0),
    Size.LARGE: (18.0, 22.0),
}

#: A large figure at a named place must stay near it.
PLACED_RADIUS = 19.0

#: Figures, caption and relations of one scene; None when the figures found no room.
Draft = tuple[list[Figure], str, tuple[Bond, ...]] | None


def _texturable(colour: Colour, background: Colour | None) -> bool:
    """Tell whether both shades of a colour stand out from the background."""
    if background is Colour.BLACK:
        return False
    greyish = colour in (Colour.BLACK, Colour.WHITE)
    return not (greyish and background in (None, Colour.GRAY))


def _stands_out(colour: Colour, background: Colour | None) -> bool:
    if background is None:
        return colour is not Colour.WHITE
    return colour is not background and frozenset({colour, background}) not in CLASHES


@cache
def _colours_on(background: Colour | None) -> tuple[Colour, ...]:
    return tuple(colour for colour in FIGURE_COLOURS if _stands_out(colour, background))


def _noun(
    rng: Random,
    background: Colour | None,
    *,
    textured: float,
    sized: float = 0.0,
    sizes: Sequence[Size] = (Size.SMALL,),
) -> Noun:
    colour, shape = rng.choice(_colours_on(background)), rng.choice(_SHAPES)
    size = rng.choice(sizes) if rng.random() < sized else None
    plain = size is Size.SMALL or not _texturable(colour, background)
    texture = None if rng.random() >= textured or plain else rng.choice(_TEXTURES)
    return Noun(shape=shape, colour=colour, size=size, texture=texture)


def _nouns(
    rng: Random, background: Colour | None, count: int, *, textured: float = 0.0, sized: float = 0.0
) -> list[Noun]:
    """Choose nouns of which no two share both shape and colour."""
    found: dict[tuple[Shape, Colour], Noun] = {}
    while len(found) < count:
        noun = _noun(rng, background, textured=textured, sized=sized)
        found.setdefault((noun.shape, noun.colour), noun)
    return list(found.values())


def _radius(rng: Random, noun: Noun, span: Span) -> float:
    return rng.uniform(*(RADIUS[noun.size] if noun.size else span))


def _jittered(rng: Random, rgb: Rgb, by: float) -> Rgb:
    red, green, blue = (min(255.0, max(0.0, part + rng.uniform(-by, by))) for part in rgb)
    return (red, green, blue)


def _figure(
    rng: Random, noun: Noun, radius: float, point: Point, place: str | None = None
) -> Figure:
    rgb = _jittered(rng, RGB[noun.colour], 12)
    return Figure(noun=noun, x=point[0], y=point[1], radius=radius, rgb=rgb, place=place)


def _scattered(
    rng: Random, nouns: Sequence[Noun], span: Span, caption: str, gap: float = 2.5
) -> Draft:
    radii = [_radius(rng, noun, span) for noun in nouns]
    points = scatter(rng, radii, gap)
    if points is None:
        return None
    put = zip(nouns, radii, points, strict=True)
    return [_figure(rng, *each) for each in put], caption, ()


def _single(rng: Random, background: Colour | None) -> Draft:
    noun = _noun(rng, background, textured=0.0)
    return _scattered(rng, [noun], RADIUS[None], noun.phrase())


def _described(rng: Random, background: Colour | None) -> Draft:
    sizes = (Size.SMALL, Size.LARGE)
    noun = _noun(rng, background, textured=0.25, sized=0.45, sizes=sizes)
    if rng.random() >= 0.55:
        return _scattered(rng, [noun], RADIUS[None], noun.phrase())
    place = rng.choice(list(PLACES))
    radius = min(PLACED_RADIUS, _radius(rng, noun, RADIUS[None]))
    point = at_place(rng, place, radius, 2.5)
    return [_figure(rng, noun, radius, point, place)], f"{noun.phrase()} {place}", ()


def _counted(
    rng: Random, background: Colour | None, count: int, span: Span, *, gap: float, textured: float
) -> Draft:
    noun = _noun(rng, background, textured=textured)
    caption = f"{NUMBERS[count]} {noun.words(plural=True)}"
    return _scattered(rng, [noun] * count, span, caption, gap)


def _two(rng: Random, background: Colour | None) -> Draft:
    kind = rng.random()
    if kind < 0.4:
        count = rng.choice([2, 3])
        span = (9.5, 12.5) if count == 2 else (8.5, 11.0)
        return _counted(rng, background, count, span, gap=2.5, textured=0.0)
    first, second = nouns = _nouns(rng, background, 2)
    span = (11.0, 13.5)
    if kind < 0.6:
        return _scattered(rng, nouns, span, f"{first.phrase()} and {second.phrase()}")
    relation = rng.choice([each for each in Relation if each is not Relation.BETWEEN])
    radii = (_radius(rng, first, span), _radius(rng, second, span))
    put = zip(nouns, radii, related(rng, relation, radii), strict=True)
    caption = f"{first.phrase()} {relation} {second.phrase()}"
    return [_figure(rng, *each) for each in put], caption, (_bond(relation, 2),)


def _bond(relation: Relation, count: int) -> Bond:
    return Bond(relation=relation, figures=tuple(range(count)))


def _listed(phrases: Sequence[str]) -> str:
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def _between(rng: Random, background: Colour | None) -> Draft:
    nouns = _nouns(rng, background, 3, textured=0.1)
    radii = [rng.uniform(8.0, 9.2) for _ in nouns]
    put = zip(nouns, radii, in_a_row(rng), strict=True)
    middle, one, other = (noun.phrase() for noun in nouns)
    figures = [_figure(rng, *each) for each in put]
    return figures, f"{middle} between {one} and {other}", (_bond(Relation.BETWEEN, 3),)


def _group_and_one(rng: Random, background: Colour | None) -> Draft:
    count = rng.choice([2, 3])
    many, one = _nouns(rng, background, 2, textured=0.1)
    caption = f"{NUMBERS[count]} {many.words(plural=True)} and {one.phrase()}"
    span = (8.5, 11.0) if count == 2 else (8.0, 10.0)
    return _scattered(rng, [many] * count + [one], span, caption, 1.5)


def _three(rng: Random, background: Colour | None) -> Draft:
    kind = rng.random()
    if kind < 0.25:
        count = rng.choice([4, 5])
        span = (8.0, 10.0) if count == 4 else (8.0, 9.2)
        return _counted(rng, background, count, span, gap=1.5, textured=0.1)
    if kind < 0.5:
        return _group_and_one(rng, background)
    if kind < 0.75:
        nouns = _nouns(rng, background, 3, textured=0.1)
        caption = _listed([noun.phrase() for noun in nouns])
        return _scattered(rng, nouns, (8.5, 11.0), caption, 1.5)
    return _between(rng, background)


def _quadrants(rng: Random, background: Colour | None) -> Draft:
    count = rng.choice([3, 4])
    nouns = _nouns(rng, background, count, textured=0.25, sized=0.2)
    figures = []
    for noun, place in zip(nouns, rng.sample(QUADRANTS, count), strict=True):
        radius = _radius(rng, noun, (11.0, 13.0))
        figures.append(_figure(rng, noun, radius, at_place(rng, place, radius, 1.5), place))
    return figures, _listed([f"{each.noun.phrase()} {each.place}" for each in figures]), ()


_DRAFTS: dict[int, Callable[[Random, Colour | None], Draft]] = {
    1: _single,
    2: _described,
    3: _two,
    4: _three,
    5: _quadrants,
}


def _canvas(rng: Random, background: Colour | None) -> Rgb:
    if background:
        return _jittered(rng, RGB[background], 10)
    grey = DEFAULT_CANVAS + rng.uniform(-25, 25)
    return _jittered(rng, (grey, grey, grey), 6)


def compose(rng: Random, level: int) -> Scene:
    """Compose a scene of a level; equal generators give equal scenes."""
    background = rng.choice(list(Colour)) if rng.random() < NAMED_BACKGROUND[level] else None
    canvas = _canvas(rng, background)
    draft = _DRAFTS[level](rng, background)
    while draft is None:
        draft = _DRAFTS[level](rng, background)
    figures, caption, bonds = draft
    if background:
        caption += f" on {with_article(background)} background"
    return Scene(
        level=level,
        caption=caption,
        background=background,
        canvas=canvas,
        figures=tuple(figures),
        bonds=bonds,
    )
