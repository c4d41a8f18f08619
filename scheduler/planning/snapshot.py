"""What a decision depends on: fleet, demand and the plan before, at one moment. Pure data."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.application import Application
from core.boards.demand import AskedJob, Stream
from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Usual
from core.placement import model_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything a decision depends on."""

    workers: Sequence[Worker]
    depths: Sequence[QueueDepth] = ()
    rates: Mapping[Stream, float] = field(default_factory=dict)  #: jobs/s
    #: application -> class -> share H
    affinity: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    previous: Mapping[str, str] = field(default_factory=dict)  #: worker -> model, last plan
    settling: Mapping[str, str] = field(default_factory=dict)  #: worker -> model to be left with
    #: registered ones, by key; beside them there is always the default one
    applications: Mapping[str, Application] = field(default_factory=dict)
    #: model that nobody holds -> seconds for which clients have asked for it in vain
    wanted: Mapping[str, float] = field(default_factory=dict)
    #: model that nobody holds -> seconds since its last worker was given another
    left: Mapping[str, float] = field(default_factory=dict)
    margin: float = 1.0  #: plan for so many times the demand
    given_s: Mapping[str, float] = field(default_factory=dict)  #: worker that loads -> since when
    history: Sequence[float] = ()  #: work of each second of the last hour
    #: application -> its last jobs
    jobs: Mapping[str, tuple[AskedJob, ...]] = field(default_factory=dict)
    usual: Mapping[str, Usual] = field(default_factory=dict)  #: model -> what its jobs are like
    classes: tuple[str, ...] = ("any",)
    tells_capacity: bool = False  #: to routers before several cells


def of_models(snapshot: Snapshot, models: Collection[str]) -> Snapshot:
    """Plan as if workers held nothing, and nobody asked for anything, that is served no more."""
    named = {
        *snapshot.previous.values(),
        *snapshot.settling.values(),
        *snapshot.wanted,
        *snapshot.left,
        *(model_of(depth.queue) for depth in snapshot.depths),
        *(name for worker in snapshot.workers for name in worker.models),
    }
    if named <= set(models):
        return snapshot
    return replace(
        snapshot,
        workers=_workers(snapshot.workers, models),
        depths=[depth for depth in snapshot.depths if model_of(depth.queue) in models],
        previous={w: m for w, m in snapshot.previous.items() if m in models},
        settling={w: m for w, m in snapshot.settling.items() if m in models},
        wanted={m: s for m, s in snapshot.wanted.items() if m in models},
        left={m: s for m, s in snapshot.left.items() if m in models},
    )


def _workers(workers: Sequence[Worker], models: Collection[str]) -> list[Worker]:
    return [
        worker
        if all(name in models for name in worker.models)
        else replace(worker, models=tuple(name for name in worker.models if name in models))
        for worker in workers
    ]
