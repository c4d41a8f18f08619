"""Endless stream of prompts whose mix of difficulties drifts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

from zoo.prompts.sets import Prompt, Split, prompts_of
from zoo.scenes import LEVELS

_MIDDLE = (LEVELS[0] + LEVELS[-1]) / 2
_REACH = (LEVELS[-1] - LEVELS[0]) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How the mix of difficulties moves as prompts pass."""

    #: Prompts from easy to hard and back.
    period: int = 2000
    #: Spread of the levels about the centre of the mix; small is nearly one level at a time.
    spread: float = 0.9
    #: After so many prompts the mix jumps somewhere else; None never does.
    jump_every: int | None = None

    def mix_at(self, position: int, seed: int) -> dict[int, float]:
        """Give the share of each level at a position; shares add up to 1."""
        turn = position / self.period + self._jump(position, seed)
        centre = _MIDDLE - _REACH * math.cos(math.tau * turn)
        weights = {
            level: math.exp(-(((level - centre) / self.spread) ** 2) / 2) for level in LEVELS
        }
        total = sum(weights.values())
        return {level: weight / total for level, weight in weights.items()}

    def _jump(self, position: int, seed: int) -> float:
        """Give how far the mix has jumped ahead, in periods."""
        if self.jump_every is None or position < self.jump_every:
            return 0.0
        return Random(f"jump/{seed}/{position // self.jump_every}").random()


def stream(seed: int, drift: Drift, split: Split = Split.TEST) -> Iterator[Prompt]:
    """Go through prompts without end, the difficulty of each drawn from the drifting mix.

    Within a level prompts come in the order of the set, so equal seeds give equal streams.
    """
    rng = Random(f"stream/{seed}")
    sources = {level: prompts_of(split, level) for level in LEVELS}
    for position in count():
        mix = drift.mix_at(position, seed)
        (level,) = rng.choices(list(mix), weights=list(mix.values()))
        yield next(sources[level])
