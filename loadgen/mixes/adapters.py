"""Draw how many LoRAs and ControlNets a request brings, and which. Pure.

Source: Katz §3, two production services: Table 1 counts the adapters of a request; Fig. 5 and the
text around it say how popular each is; the exponents are fitted to that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from loadgen.mixes.popularity import Shares, choose, zipf
from loadgen.workload import Counts


class AdapterService(StrEnum):
    """Whose requests are imitated."""

    A = "a"  #: nearly all bring two LoRAs
    B = "b"  #: most bring one LoRA


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterTraffic:
    """What Katz tells of one kind of adapter in one service."""

    counts: tuple[float, ...]  #: share of the requests that bring none, one, two, ...
    population: int  #: different ones in the trace
    exponent: float  #: of Zipf's law over them

    @property
    def popularity(self) -> Shares:
        """Share of the calls that each has, the most popular first."""
        return zipf(self.population, self.exponent)

    def draw(self, size: int, rng: np.random.Generator) -> Counts:
        """Draw how many each request brings."""
        return choose(np.array(self.counts), size, rng)


#: 98 % of the calls go to five ControlNets in A, 95 % to eight in B.
CONTROLS: Mapping[AdapterService, AdapterTraffic] = {
    AdapterService.A: AdapterTraffic(
        counts=(0.0, 0.305, 0.695, 0.0), population=47, exponent=2.804
    ),
    AdapterService.B: AdapterTraffic(
        counts=(0.019, 0.251, 0.699, 0.031), population=94, exponent=2.113
    ),
}
#: All but 12 (A) and 14 (B) have less than 1 % of the calls each; Zipf's law over so many has 12 at
#: most. The flattest that has them: each node of the trace saw ever new ones (Fig. 7).
LORAS: Mapping[AdapterService, AdapterTraffic] = {
    AdapterService.A: AdapterTraffic(counts=(0.002, 0.088, 0.91), population=6980, exponent=1.1),
    AdapterService.B: AdapterTraffic(counts=(0.072, 0.736, 0.192), population=7463, exponent=1.1),
}
