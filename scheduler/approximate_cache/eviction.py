"""Eviction policy of the latent cache: benefit per byte. Pure: the caller brings the clock.

Benefit is what Argus' cache leaves open: hits times the steps they saved, less with every hour
that nobody started there, for each byte.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

from core.latents import Lender

HALF_LIFE_S = 3600.0  #: latents that nobody starts from are worth half after so long
TRIMMED = 0.95  #: of the limits is left once they were passed: room for more than one newcomer


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedLender:
    """A lender and what it has been good for."""

    lender: Lender
    saved: float = 0.0  #: steps of 50 that jobs skipped by starting there
    used_at: float  #: epoch s: when a job last started there, else when it was made

    def benefit(self, now: float) -> float:
        """Expect steps saved per byte. A newcomer is taken to be good for one hit."""
        saved = self.saved + max(self.lender.skips, default=0)
        age_s = max(0.0, now - self.used_at)
        return float(saved * 0.5 ** (age_s / HALF_LIFE_S) / max(1, self.lender.num_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """How much may be kept."""

    num_bytes: int
    count: int  #: lenders: a search takes longer with each
    ttl_s: float  #: since the latents were made


class EvictionLedger:
    """Every lender in the index."""

    def __init__(self) -> None:
        self._entries: dict[str, CachedLender] = {}
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, lender_id: str) -> bool:
        return lender_id in self._entries

    @property
    def newest(self) -> Lender | None:
        """Give the lender that was taken in last; None of none."""
        last = next(reversed(self._entries.values()), None)
        return last.lender if last is not None else None

    def add(self, lenders: Iterable[Lender]) -> None:
        """Take lenders in; one with a known id takes the place of the older."""
        for lender in lenders:
            self._drop(lender.id)
            self._entries[lender.id] = CachedLender(lender=lender, used_at=lender.made_at)
            self.num_bytes += lender.num_bytes

    def use(self, lender_id: str, skipped_steps: int, now: float) -> None:
        """Note that a job starts from a lender."""
        entry = self._entries.get(lender_id)
        if entry is not None:
            saved = entry.saved + skipped_steps
            self._entries[lender_id] = replace(entry, saved=saved, used_at=max(now, entry.used_at))

    def remove(self, ids: Iterable[str]) -> list[Lender]:
        """Forget lenders; return those that were there."""
        return [lender for lender in map(self._drop, ids) if lender is not None]

    def fits(self, limits: CacheLimits) -> bool:
        """Tell whether there is room, without a look at anybody's age."""
        return self.num_bytes <= limits.num_bytes and len(self) <= limits.count

    def excess(self, limits: CacheLimits, now: float) -> list[str]:
        """Choose who must go: whatever is too old, then the least beneficial."""
        return excess(self._entries, limits, now)

    def _drop(self, lender_id: str) -> Lender | None:
        entry = self._entries.pop(lender_id, None)
        if entry is None:
            return None
        self.num_bytes -= entry.lender.num_bytes
        return entry.lender


def excess(entries: Mapping[str, CachedLender], limits: CacheLimits, now: float) -> list[str]:
    """Choose who must go for the rest to keep to the limits.

    Nobody who goes for want of room has a higher benefit than anybody who stays.
    """
    old = [name for name, each in entries.items() if now - each.lender.made_at > limits.ttl_s]
    kept = {name: entries[name] for name in entries.keys() - set(old)}
    num_bytes, count = sum(each.lender.num_bytes for each in kept.values()), len(kept)
    if num_bytes <= limits.num_bytes and count <= limits.count:
        return old
    chosen = []
    worst_first = sorted((each.benefit(now), name) for name, each in kept.items())
    for name in map(itemgetter(1), worst_first):
        if num_bytes <= TRIMMED * limits.num_bytes and count <= TRIMMED * limits.count:
            break
        num_bytes, count = num_bytes - kept[name].lender.num_bytes, count - 1
        chosen.append(name)
    return old + chosen
