"""Put a worker's own report together: what it holds, gets ready and does."""

from typing import TYPE_CHECKING

from core.boards.fleet import Stage, Warming, Worker
from worker.engine.idle_work import TIMING
from worker.engine.stats import EngineStats
from worker.jobs.pending_work import works

if TYPE_CHECKING:
    from worker.process.components import Components


def report_of(parts: "Components", stats: EngineStats) -> Worker:
    """Say what a worker holds and does."""
    facts = parts.facts
    busiest = max(stats.step_s, key=lambda name: stats.step_s[name], default="")
    return Worker(
        name=parts.name,
        device_type=parts.device_type,
        models=parts.residency.resident,
        queues=parts.queues.names,
        memory_gib=parts.memory_gib,
        catalogue=tuple(sorted(parts.models)),
        refused=parts.loads.refused,
        failures=parts.loads.failures,
        loading=_loading(parts),
        running=stats.running,
        waiting=stats.waiting,
        max_slots=parts.settings.max_slots,
        step_s=stats.step_s.get(busiest, 0.0),
        step_images=stats.step_images.get(busiest, 1.0),
        most_sharing=stats.most_sharing.get(busiest, 0),
        costs=facts.trials.costs,
        untried=facts.trials.untried(parts.models),
        load_s=facts.measured.load_s,
        needs_gib=facts.needs.gib,
        slowness=parts.pace.slowness,
        starts_read=parts.images.starts.read,
        starts_late=parts.images.starts.late,
        works=works(
            tuple(parts.engine.running),
            parts.executor.unmade(),
            parts.prefetcher.waiting,
            parts.models,
        ),
        recordings=parts.loading.recordings.in_memory,
        shelved=parts.loading.recordings.on_disk,
    )


def _loading(parts: "Components") -> Warming | None:
    """Say what is got ready: loaded, else timed while there are no jobs."""
    now, doing = parts.loads.now, parts.engine.activity
    if now is not None or doing is None or doing.doing != TIMING:
        return now
    serves = doing.model.name in parts.residency.resident
    return Warming(model=doing.model.name, stage=Stage.TIMING, seconds=0.0, serves=serves)
