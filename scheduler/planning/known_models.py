"""Leave out of a snapshot what is about models that are served no more. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from core.boards.fleet import Worker
from core.placement import model_of
from scheduler.planning.decide import Snapshot


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
