"""Hit rate of each level over recent lookups of latents. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

#: Lookups after which one counts a third of what it did.
MEMORY = 100
#: Misses assumed before anything was looked up: a plan counts on nothing it has not seen.
DOUBT = 5.0


@dataclass(slots=True)
class _Tally:
    hits: float = 0.0
    lookups: float = 0.0


class HitRates:
    """The share of prompts that would find a start at each level, whatever level they got.

    Every prompt counts, also one that starts from noise, so that a plan without K > 0 learns that
    there is something to start from, and one with K > 0 that there is not.
    """

    def __init__(self, levels: Iterable[str]) -> None:
        self._tallies = {level: _Tally() for level in levels}

    def observe(self, level: str, is_hit: bool) -> None:
        """Count one lookup; of a level that nobody asks about it is forgotten."""
        tally = self._tallies.get(level, _Tally())
        kept = 1 - 1 / MEMORY
        tally.hits = tally.hits * kept + is_hit
        tally.lookups = tally.lookups * kept + 1

    def rate(self, level: str) -> float:
        """Expect this share of prompts to find a start, in [0, 1)."""
        tally = self._tallies.get(level, _Tally())
        return tally.hits / (tally.lookups + DOUBT)

    def rates(self) -> dict[str, float]:
        """Give the rate of every level."""
        return {level: self.rate(level) for level in self._tallies}
