"""Record of what one network architecture lets be laid over it: graphs, masks, ControlNets."""

from dataclasses import dataclass

from worker.control.client.steerable import Steerability
from worker.masking.blocks.cut import Cuts


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What a family, or several, calls at every step, and where others reach into it."""

    part: str  #: of the stock pipeline: what is called at every step
    compiled: frozenset[str]  #: classes of the blocks that are compiled, each by itself
    cuts: Cuts  #: classes of the blocks that masks cut
    steerability: Steerability | None = None  #: by ControlNets; None: none is served
