"""What the scheduler decided for this period. Pure data; published to Redis as one document."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.cost import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class PasmRow:
    """How prompts of one class of one application are shared among levels (Argus §4.3)."""

    application: str
    affinity: str  #: the class
    models: tuple[str, ...] = ()  #: for prompts that may take these alone; empty: for all others
    shares: Mapping[str, float]  #: level name -> share; sums to one


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which worker holds which model, and which level each class of prompt gets."""

    version: int  #: grows with every publication
    fence: int  #: of the leader that published it
    made_at: float  #: epoch s
    policy: str  #: the allocation policy that made it
    assignments: Mapping[str, str]  #: worker name -> model it shall hold
    pasm: tuple[PasmRow, ...]
    demand: Mapping[str, float] = field(default_factory=dict)  #: application -> jobs/s
    affinity: Mapping[str, float] = field(default_factory=dict)  #: class -> share H
    levels: Mapping[str, float] = field(default_factory=dict)  #: level -> jobs/s F
    saturation: float = 0.0  #: unserved share of the demand, in [0, 1]
    #: device type -> model -> what an image takes there, by which jobs are promised a time
    costs: Mapping[str, Mapping[str, Cost]] = field(default_factory=dict)
