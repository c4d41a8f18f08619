"""Track what the second rank knows of its rows, so that each call is sent once."""

from dataclasses import dataclass
from itertools import count
from weakref import WeakKeyDictionary

from worker.lora.mix import Mix
from worker.parallel.conditions import write
from worker.parallel.halves import Halves
from worker.parallel.link import Link
from worker.pipeline.packing import Packed, Packing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """The rows of one call, as both ranks know them."""

    number: int  #: by which the second rank knows them
    halves: Halves
    here: Packed  #: with padding
    mixes: tuple[Mix, ...]  #: of the rows of the second rank


class Briefing:
    """What was said over one link."""

    def __init__(self, link: Link, packing: Packing) -> None:
        self.link = link
        self._packing = packing
        self._told: WeakKeyDictionary[Packed, Told] = WeakKeyDictionary()  #: by whole calls
        self._known: set[int] = set()  #: numbers that the second rank has not been told to forget
        self._numbers = count()

    def tell(self, packed: Packed, halves: Halves) -> Told:
        """Tell the second rank of its rows, unless it knows them. Raises: LinkLost."""
        if packed not in self._told:
            self._told[packed] = self._send(packed, halves)
        return self._told[packed]

    def _send(self, packed: Packed, halves: Halves) -> Told:
        before = list(self._told.values())
        forgotten = self._known - {told.number for told in before}
        here, there = packed.take(halves.here), packed.take(halves.there)
        number = next(self._numbers)
        message = write(
            there, number=number, forgotten=forgotten, told=[told.mixes for told in before]
        )
        self.link.send(*message)
        self._known = (self._known - forgotten) | {number}
        here = here.padded(self._packing.bucket(len(halves.here)))
        return Told(number=number, halves=halves, here=here, mixes=there.mixes)
