"""Choose prompts and levels of the classifier's training and test images. Pure.

An image of every training prompt at every level would take a day of a core. A few levels of each
are enough: what one level teaches about prompts the heads of all levels share.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice, product
from random import Random

from core.levels.level import Level
from zoo.prompts import Split, prompts_of
from zoo.prompts.measured import mixed
from zoo.scenes import Scene

#: Training prompts of a round by difficulty. There are but 42 captions of difficulty 1.
TAUGHT = {1: 400, 2: 2400, 3: 2400, 4: 2400, 5: 2400}
#: A level that has had all prompts of a round goes on with those of the next.
ROUNDS = 3
#: Test prompts, a fifth of each difficulty; each is made at every level, again and again.
TESTED = 320
#: Test prompts that are made together.
TOGETHER = 160
#: Images of one draw of training prompts.
BATCH = 64
#: Sets of remembered prompts, taken in turn.
MEMORIES = 3

_NOISE_OF_TESTS = 50_000_000
_NOISE_OF_GROUP = 1_000_000
_NOISE_OF_MEMORIES = 90_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Images that are made together."""

    level: Level
    number: int  #: of the draws of this level
    rows: tuple[int, ...]  #: of the prompts
    seeds: tuple[int, ...]  #: of their noise

    @property
    def memory(self) -> int:
        """Which set of remembered prompts it may start from."""
        return self.number % MEMORIES


def taught() -> list[Scene]:
    """Compose the prompts that teach, round by round."""
    some = (
        islice(prompts_of(Split.TRAIN, level), number * count, (number + 1) * count)
        for number in range(ROUNDS)
        for level, count in TAUGHT.items()
    )
    return [prompt.address.scene() for prompts in some for prompt in prompts]


def tested() -> list[Scene]:
    """Compose the prompts that test: the first of the test set, as in a profile."""
    return mixed(Split.TEST, 0, TESTED)


def remembered(memory: int, count: int) -> tuple[list[Scene], list[int]]:
    """Compose the prompts of one memory, and number their noise."""
    first = memory * count
    seeds = range(_NOISE_OF_MEMORIES + first, _NOISE_OF_MEMORIES + first + count)
    return mixed(Split.VALIDATION, first, count), list(seeds)


def teaching(levels: Mapping[Level, float], prompts: int) -> Iterator[Draw]:
    """Deal training prompts out to levels until each has had all.

    So many more go to a fast level that each further image teaches as much for its time: images
    are as the inverse root of seconds. What an image teaches goes for all levels of its model, so
    those share their turns. Units: seconds of one image, by level.
    """
    dealt = {level: _dealt(level, prompts) for level in levels}
    sharing = Counter(level.model for level in levels)
    wait = {level: sharing[level.model] * seconds**0.5 for level, seconds in levels.items()}
    turns: list[tuple[float, Level, int]] = []
    for level in levels:
        heappush(turns, (wait[level], level, 0))
    while turns:
        turn, level, number = heappop(turns)
        if number < len(dealt[level]):
            rows = dealt[level][number]
            seeds = tuple(_seed(level, row) for row in rows)
            yield Draw(level=level, number=number, rows=rows, seeds=seeds)
            heappush(turns, (turn + wait[level], level, number + 1))


def testing(levels: Sequence[Level], prompts: int, repeats: int) -> Iterator[Draw]:
    """Make every prompt at every level, again and again, each time with other noise.

    Levels with K > 0 have no noise of their own: they start from other memories each time, of which
    there are few.
    """
    for number, start in product(range(repeats), range(0, prompts, TOGETHER)):
        rows = range(start, min(start + TOGETHER, prompts))
        for level in levels:
            if level.approximation.needs_latents and number >= MEMORIES:
                continue
            seeds = tuple(_seed_of_test(row, number) for row in rows)
            yield Draw(level=level, number=number, rows=tuple(rows), seeds=seeds)


def _dealt(level: Level, prompts: int) -> list[tuple[int, ...]]:
    """Shuffle the rows of each round, and deal them out; no draw is of two rounds."""
    random, size, dealt = Random(f"labels/{level.name}"), -(-prompts // ROUNDS), []
    for first in range(0, prompts, size):
        rows = list(range(first, min(first + size, prompts)))
        random.shuffle(rows)
        dealt += [tuple(rows[at : at + BATCH]) for at in range(0, len(rows), BATCH)]
    return dealt


def _seed(level: Level, row: int) -> int:
    return Random(f"labels/{level.name}/{row}").randrange(_NOISE_OF_TESTS)


def _seed_of_test(row: int, number: int) -> int:
    group, place = divmod(row, TOGETHER)
    return _NOISE_OF_TESTS + group * _NOISE_OF_GROUP + number * TOGETHER + place
