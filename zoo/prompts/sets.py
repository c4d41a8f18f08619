"""Prompt sets and splits. Pure: a version, a split and a number give a prompt."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import count, islice

from zoo.scenes import LEVELS, Scene, held_out_scene, training_scene
from zoo.scenes.words import FIGURE_COLOURS, Colour, Shape, with_article

#: Changes with every change of the sets; results name it.
VERSION = "v1"


class Split(StrEnum):
    """What prompts are for."""

    #: To fit whatever predicts quality; training scenes of a seed that no model saw.
    TRAIN = "train"
    #: To choose between settings; held-out scenes.
    VALIDATION = "validation"
    #: To report figures; held-out scenes.
    TEST = "test"


#: Prompts per level.
SIZES = {Split.TRAIN: 4000, Split.VALIDATION: 1000, Split.TEST: 2000}

_SEEDS = {Split.TRAIN: 301, Split.VALIDATION: 302, Split.TEST: 303}
#: Eighths of all captions: a caption beyond level 1 belongs to one split.
_EIGHTHS = (Split.TRAIN,) * 5 + (Split.VALIDATION,) + (Split.TEST,) * 2
#: The captions of level 1 cannot be shared out: there are 42, and every split has them all.
_PLAIN = frozenset(
    with_article(f"{colour} {shape}")
    for colour in FIGURE_COLOURS
    if colour is not Colour.WHITE
    for shape in Shape
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a scene comes from; enough to compose it again."""

    #: "training" or "held out".
    stream: str
    seed: int
    level: int
    index: int

    def scene(self) -> Scene:
        """Compose the scene."""
        compose = training_scene if self.stream == "training" else held_out_scene
        return compose(self.level, self.seed, self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One item of a set."""

    #: Version, split, level and number, such as v1-test-3-00042.
    id: str
    split: Split
    #: Difficulty, 1 to 5.
    level: int
    caption: str
    #: The scene that the checker judges pictures by.
    address: Address

    def as_fields(self) -> dict[str, object]:
        """Give the fields for JSON."""
        return asdict(self)


def prompts_of(split: Split, level: int) -> Iterator[Prompt]:
    """Go through the prompts of one level of a split, without end; a set is the first of them."""
    stream = "training" if split is Split.TRAIN else "held out"
    number = count()
    for index in count():
        address = Address(stream=stream, seed=_SEEDS[split], level=level, index=index)
        caption = address.scene().caption
        if _belongs(caption, split, level):
            name = f"{VERSION}-{split}-{level}-{next(number):05d}"
            yield Prompt(id=name, split=split, level=level, caption=caption, address=address)


def prompt_set(split: Split, per_level: int | None = None) -> Iterator[Prompt]:
    """Go through a split, level by level; fewer per level on request, the first of each."""
    for level in LEVELS:
        yield from islice(prompts_of(split, level), per_level or SIZES[split])


def digest(prompts: Iterable[Prompt]) -> str:
    """Give a fingerprint of prompts, ids, captions and addresses alike."""
    sha = hashlib.sha256()
    for each in prompts:
        sha.update(f"{each.id}\t{each.caption}\t{each.address}\n".encode())
    return sha.hexdigest()


def _belongs(caption: str, split: Split, level: int) -> bool:
    if level == 1:
        return True
    eighth = hashlib.sha256(caption.encode()).digest()[0] % len(_EIGHTHS)
    return caption not in _PLAIN and _EIGHTHS[eighth] is split
