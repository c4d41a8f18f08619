"""What does the second rank know of its rows? Each call is told once, and the last are kept."""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import count

from worker.families.packing import Packed, Packing
from worker.parallel.conditions import write
from worker.parallel.halves import Halves
from worker.parallel.link import Link

#: Calls that are remembered: those of one step, and of the step before.
REMEMBERED = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """The rows of one call, as both ranks know them."""

    number: int  #: by which the second rank knows them
    halves: Halves
    here: Packed  #: with padding
    there: Packed


class Briefing:
    """What was said over one link."""

    def __init__(self, link: Link, packing: Packing) -> None:
        self.link = link
        self._packing = packing
        self._told: OrderedDict[Packed, Told] = OrderedDict()  #: by whole calls, the last ones
        self._numbers = count()

    def tell(self, packed: Packed, halves: Halves) -> Told:
        """Tell the second rank of its rows, unless it remembers them. Raises: LinkLost."""
        if packed not in self._told:
            self._told[packed] = self._send(packed, halves)
        self._told.move_to_end(packed)
        return self._told[packed]

    def _send(self, packed: Packed, halves: Halves) -> Told:
        before = [told.there for told in self._told.values()]
        forgotten = []
        while len(self._told) >= REMEMBERED:
            forgotten.append(self._told.popitem(last=False)[1].number)
        here, there = packed.take(halves.here), packed.take(halves.there)
        told = Told(
            number=next(self._numbers),
            halves=halves,
            here=here.padded(self._packing.bucket(len(halves.here))),
            there=there,
        )
        self.link.send(*write(there, number=told.number, forgotten=forgotten, told=before))
        return told
