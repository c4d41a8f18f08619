"""Renew leases, report the worker, drop lost jobs.

Two threads: one renews leases, reports the worker and passes progress on; one listens for jobs to
stop. Neither ends before the process does: a store that is away is tried again.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from core.errors import StoreUnavailable
from core.job import Progress
from core.log import get_logger, log_errors
from storage.jobs.leases import Leases
from worker.engine.watchdog import LOOK_S

log = get_logger(__name__)

#: What is due is looked for so often.
TICK_S = 0.1
#: Who follows a job is told its progress so often at most, whatever the step rate.
TELL_S = 1.0
#: The scheduler hears of this worker so often: it plans by who is there.
REPORT_S = 1.0


class PreviewSource(Protocol):
    """Who has small pictures of images on their way made."""

    def take(self) -> Mapping[str, str]:
        """Take the documents that are new, by job id."""
        ...

    def want(self, watched: Collection[str]) -> None:
        """Have pictures made of these jobs, whose followers asked for them."""


class NoPreviews:
    """Has none made."""

    def take(self) -> Mapping[str, str]:
        return {}

    def want(self, watched: Collection[str]) -> None:
        del watched


class Holder(Protocol):
    """Who holds the leases: the executor."""

    def fences(self) -> dict[str, int]:
        """Give the jobs whose leases must be renewed, with their fences."""

    def lose(self, job_id: str, fence: int) -> None:
        """Drop a job that belongs to another claim by now."""

    def check(self, job_id: str) -> None:
        """Stop a job if its record says so."""


@dataclass(slots=True)
class Rhythm:
    """Something done again and again."""

    every_s: float
    act: Callable[[], None]
    due_at: float = 0.0  #: monotonic s


class Heartbeat:
    """Beats for one worker until it is stopped."""

    def __init__(
        self,
        *,
        leases: Leases,
        holder: Holder,
        progress: Callable[[], Mapping[str, Progress]],
        report: Callable[[], None],
        beat_s: float,
        look: Callable[[], None] = lambda: None,
        previews: PreviewSource | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; `look` is called before anything is renewed: it sees to what hangs."""
        self._leases = leases
        self._holder = holder
        self._progress = progress
        self._report = report
        self._beat_s = beat_s
        self._look = look
        self._previews = previews or NoPreviews()
        self._clock = clock
        self._told: dict[str, tuple[float, Progress]] = {}  #: when, and what, by job id
        self._unshown: dict[str, str] = {}  #: previews that no follower has seen yet, by job id
        self._is_stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._beat_all, name="heartbeat", daemon=True),
            threading.Thread(target=self._listen, name="stops", daemon=True),
        ]

    def start(self) -> None:
        """Start beating and listening, in threads of their own."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop, and wait for a beat on its way."""
        self._is_stopped.set()
        self._threads[0].join(self._beat_s)

    def beat(self) -> None:
        """Renew the leases of what is held, and note how far it is; drop what has been lost."""
        held = self._holder.fences()
        done = {job_id: at for job_id, at in self._progress().items() if at.step}
        for job_id in self._leases.beat(held, done):
            self._holder.lose(job_id, held[job_id])

    def tell_progress(self) -> None:
        """Tell those who follow how far their jobs have come, and have previews made for them."""
        followed = dict(self._leases.followed)
        self._previews.want([job_id for job_id, is_shown in followed.items() if is_shown])
        unshown = {**self._unshown, **self._previews.take()}
        self._unshown = {i: preview for i, preview in unshown.items() if i in followed}
        self._told = {job_id: told for job_id, told in self._told.items() if job_id in followed}
        if not followed:
            return
        now, done = self._clock(), self._progress()
        due = {i: done[i] for i in followed if i in done and self._is_due(i, done[i], now)}
        if due:
            self._leases.progress(due, {i: p for i, p in self._unshown.items() if i in due})
            self._told |= {job_id: (now, at) for job_id, at in due.items()}
            self._unshown = {i: p for i, p in self._unshown.items() if i not in due}

    def _is_due(self, job_id: str, at: Progress, now: float) -> bool:
        """Tell whether there is news of a job, and none was told just now."""
        told_at, told = self._told.get(job_id, (-TELL_S, None))
        is_news = at.step > 0 and (at != told or job_id in self._unshown)
        return is_news and now >= told_at + TELL_S

    def _beat_all(self) -> None:
        rhythm = [Rhythm(LOOK_S, self._look), Rhythm(TICK_S, self.tell_progress)]
        rhythm.append(Rhythm(self._beat_s, self.beat))
        rhythm.append(Rhythm(REPORT_S, self._report))
        while not self._is_stopped.wait(TICK_S):
            for each in rhythm:
                _try(each, time.monotonic())

    def _listen(self) -> None:
        while not self._is_stopped.is_set():
            with log_errors(log, "listening_failed"):
                try:
                    for job_id in self._leases.stops(1.0):
                        self._holder.check(job_id)
                except StoreUnavailable as error:
                    log.warning("stop_not_checked", reason=str(error))
                continue
            self._is_stopped.wait(1.0)


def _try(rhythm: Rhythm, now: float) -> None:
    """Do it if it is due. What the store could not take is due again at once."""
    if now < rhythm.due_at:
        return
    with log_errors(log, "beat_failed"):
        try:
            rhythm.act()
        except StoreUnavailable as error:
            log.warning("beat_missed", reason=str(error))
            return
    rhythm.due_at = now + rhythm.every_s
