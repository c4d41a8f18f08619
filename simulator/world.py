"""A world to simulate: fleet, costs, requests, and what goes wrong when. Pure data."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from core.application import Application
from loadgen.prompts import PromptSet
from loadgen.workload import Workload
from scheduler.approximate_cache.strategy import Dependency
from scheduler.profile.profile import Profile

#: Of a worker whose memory nobody names.
MEMORY_GIB: Final = 80.0
#: Names that a sentence lists before it ends in dots.
LISTED: Final = 8
#: Fields of requests that change what they take, and that no simulated worker reads.
NOT_SIMULATED: Final = ("priority", "deadline_s", "guidance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Workers that are gone for a while: what they had goes to others, and they come back empty."""

    begin_s: float  #: of the workload's time
    end_s: float
    workers: int  #: how many, of every type in proportion


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """The index of prompts or the object store answers nobody in time."""

    begin_s: float  #: of the workload's time
    end_s: float
    whom: Dependency  #: that does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that an outcome depends on, beside the policy."""

    fleet: Mapping[str, int]  #: device type -> workers
    profile: Profile  #: what the scheduler believes of costs and qualities
    workload: Workload
    prompts: PromptSet  #: with the quality of each prompt of the workload at every level
    #: seconds that every job is promised after; None: three times what its base model takes
    slo_s: float | None = None
    #: registered ones, by the key that requests name them by
    applications: Mapping[str, Application] = field(default_factory=dict)
    #: seconds after its arrival at which a job is given up; None: late ones are made all the same
    deadline_s: float | None = None
    period_s: float = 10.0  #: between two decisions, if nothing happens
    slots: int = 1  #: images that a worker makes at a time
    memory_gib: Mapping[str, float] = field(default_factory=dict)  #: by device type
    outages: tuple[Outage, ...] = ()
    stalls: tuple[Stall, ...] = ()
    #: model -> what its steps really take, in what the profile says; else 1
    misjudged: Mapping[str, float] = field(default_factory=dict)
    #: seconds that a decision takes; None: as much as its CPU time, which no two runs share
    deciding_s: float | None = 0.05
    #: seconds before the first arrival at which the fleet starts; None: as long as its loads take
    warm_up_s: float | None = None
    #: seconds after the last arrival for which what is unfinished is still made
    patience_s: float = 600.0
    seed: int = 0

    def memory_of(self, device_type: str) -> float:
        """Say how much memory a worker has (GiB)."""
        return self.memory_gib.get(device_type, MEMORY_GIB)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say what is taken to be so, since nobody says it, or since it is not simulated."""
        unsaid = sorted(set(self.fleet) - set(self.memory_gib))
        profiled = {level.name for level in replace(self.profile, can_resume=True).levels}
        unknown = [name for name in self.prompts.levels if name not in profiled]
        left_out = [name for name in NOT_SIMULATED if name in self.workload.others]
        return (
            *(f"{kind} has {MEMORY_GIB:g} GiB: the profile names no memory_gib" for kind in unsaid),
            *(f"requests have no {name}: that column is not simulated" for name in left_out),
            *([_without_effect(unknown, profiled)] if unknown else []),
        )


def _without_effect(unknown: Sequence[str], profiled: Collection[str]) -> str:
    """Say which levels of the prompts' qualities no job is ever made at."""
    names, have = (
        ", ".join(each[:80] for each in some[:LISTED]) + ", …" * (len(some) > LISTED)
        for some in (unknown, sorted(profiled))
    )
    return f"qualities of prompts at {names} are without effect: the profile's levels are {have}"
