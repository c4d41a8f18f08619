"""Plan: model per worker and level shares per prompt class. Pure data, one Redis document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from core.boards.cost import Cost
from core.cells.capacity import Segment


class Strategy(StrEnum):
    """How prompts are served in less time (Argus §4.6)."""

    AC = "ac"  #: approximate caching: jobs may start from latents, K > 0, beside smaller models
    SM = "sm"  #: smaller models alone: every job runs all of its steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One change of strategy."""

    to: Strategy
    at: float  #: epoch s
    cause: str  #: what was seen of the index or the object store


@dataclass(frozen=True, slots=True, kw_only=True)
class PasmRow:
    """How prompts of one class of one application are shared among levels (Argus §4.3)."""

    application: str
    affinity: str  #: the class
    models: tuple[str, ...] = ()  #: for prompts that may take these alone; empty: for all others
    is_full: bool = False  #: for jobs that cannot start from latents; else for all others
    shares: Mapping[str, float]  #: level name -> share; sums to one


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What jobs sent to one model are like, on average of the last ones."""

    steps: float  #: that each image has before it
    images: float  #: of a job


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
    usable: tuple[str, ...] = ()  #: levels that jobs may be made at, in the plan or not
    reason: str = ""  #: why the fleet is divided so, for who reads the plan
    saturation: float = 0.0  #: unserved share of the demand, in [0, 1]
    #: device type -> model -> what an image takes there, by which jobs are promised a time
    costs: Mapping[str, Mapping[str, Cost]] = field(default_factory=dict)
    #: device type -> model that its workers can hold -> seconds to load it
    loads: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: model -> its jobs; missing: as the levels above and the model itself say
    usual: Mapping[str, Usual] = field(default_factory=dict)
    #: worker -> when it was given its model, epoch s; missing: longer ago than anybody knows
    since: Mapping[str, float] = field(default_factory=dict)
    resident: tuple[str, ...] = ()  #: models that some worker served then; empty: nobody knows
    #: device type -> time of its steps, as workers measure it, in profiled ones
    slowness: Mapping[str, float] = field(default_factory=dict)
    takes_latents: bool = False  #: somebody indexes what jobs leave, for others to start from
    strategy: Strategy = Strategy.AC
    switched: Switch | None = None  #: the last change of strategy
    #: in a cell: what one more job is worth, by how many there are; empty: nobody asks
    capacity: tuple[Segment, ...] = ()
    schema: int = 1  #: number of its form (`core/schema.py`)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAssignment:
    """What the plan in force means for one worker."""

    version: int  #: of the plan
    model: str | None  #: that it shall hold; None: the plan does not know it
    takes_latents: bool = False  #: as the plan says
