"""What a model was seen to take on one type of device. Pure data."""

from dataclasses import dataclass

from core.boards.cost import Cost
from core.boards.need import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredModel:
    """One model on one type of device, as some worker measured it; others need not."""

    weights: str = ""  #: fingerprint of its folder: of other weights this says nothing
    load_s: float = 0.0  #: seconds to load it; 0: nobody has
    cost: Cost | None = None  #: of its images; None: nobody has timed them
    need: Need | None = None  #: memory that it takes; None: nobody has looked
