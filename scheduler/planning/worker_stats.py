"""Worker stats: step slowdown per device type, late reads of latents. Pure."""

from collections.abc import Sequence
from statistics import median

from core.boards.fleet import Worker
from scheduler.routing.holders import SLOWNESS


def slowness(workers: Sequence[Worker]) -> dict[str, float]:
    """Say how the steps of each device type compare with its profile: the middle worker's word."""
    least, most = SLOWNESS
    types = sorted({worker.device_type for worker in workers})
    reported = {
        t: [w.slowness for w in workers if w.device_type == t and w.slowness] for t in types
    }
    return {t: min(most, max(least, median(known))) for t, known in reported.items() if known}


def model_slowness(workers: Sequence[Worker]) -> dict[tuple[str, str], float]:
    """Say the same of each model by itself: of workers that serve it alone."""
    reported: dict[tuple[str, str], list[float]] = {}
    for worker in workers:
        if worker.slowness and len(worker.models) == 1:
            key = worker.device_type, worker.models[0]
            reported.setdefault(key, []).append(worker.slowness)
    least, most = SLOWNESS
    return {key: min(most, max(least, median(known))) for key, known in reported.items()}


class StartCounts:
    """How many latents workers read since the last look, and how many of them came late."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] = {}

    def news(self, workers: Sequence[Worker]) -> tuple[int, int]:
        """Count good and bad reads since the last look. A worker new to us brings none."""
        good = bad = 0
        for worker in workers:
            counts = read, late = worker.starts_read, worker.starts_late
            before = self._before.get(worker.name)
            if before == counts:
                continue
            self._before[worker.name] = counts
            read_before, late_before = before or counts
            if read < read_before:  # it has been started again
                read_before = late_before = 0
            good += read - late - (read_before - late_before)
            bad += late - late_before
        return max(0, good), max(0, bad)
