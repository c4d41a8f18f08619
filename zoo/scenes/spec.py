"""Data types of a scene: nouns, figures, relations, caption."""

from dataclasses import dataclass

from zoo.scenes.words import Colour, Relation, Rgb, Shape, Size, Texture, with_article


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A figure as the caption names it."""

    #: What it is.
    shape: Shape
    #: Its main colour.
    colour: Colour
    #: Its size, if the caption names one.
    size: Size | None = None
    #: Its filling; None is plain.
    texture: Texture | None = None

    def words(self, *, plural: bool = False) -> str:
        """Name the figure without an article."""
        shape = self.shape.plural if plural else str(self.shape)
        return " ".join(str(word) for word in (self.size, self.texture, self.colour, shape) if word)

    def phrase(self) -> str:
        """Name the figure with its article."""
        return with_article(self.words())


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure as it is drawn."""

    #: What the caption says of it.
    noun: Noun
    #: Centre, pixels from the left.
    x: float
    #: Centre, pixels from the top.
    y: float
    #: Radius in pixels.
    radius: float
    #: The main colour after jitter.
    rgb: Rgb
    #: Where the caption puts it, a key of PLACES; None is anywhere.
    place: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bond:
    """A relation that the caption states."""

    #: Which relation.
    relation: Relation
    #: Indices of the figures, the subject first.
    figures: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A captioned picture, complete: drawing it takes no further choice."""

    #: Difficulty, 1 to 5.
    level: int
    #: The prompt.
    caption: str
    #: The background that the caption names; None is the default grey.
    background: Colour | None
    #: The background after jitter.
    canvas: Rgb
    #: What stands on it.
    figures: tuple[Figure, ...]
    #: What holds between them.
    bonds: tuple[Bond, ...] = ()
