"""In-memory fake of `EventHub`."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator

from core.job import Job, JobEvent, JobStatus
from storage.fakes.store import MemoryStore
from storage.jobs.events import FOLLOWED_S, Events
from storage.jobs.previews import show
from storage.jobs.record import no_such_job


class MemoryEvents(Events):
    """Followers of one memory store; whoever changes it, in whatever thread, rings them."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self._is_over = False

    async def follow(
        self, job_id: str, after: str = "0", *, previews: bool = False
    ) -> AsyncGenerator[JobEvent, None]:
        seen, shown = _order(after), None
        with self._bell(job_id) as bell:
            while not self._is_over:
                bell.clear()
                status = await self.announce(job_id, previews=previews)
                stream = list(self.store.events.get(job_id, ()))
                news = [event for event in stream if _order(event.id) > seen]
                if previews:
                    latest = self.store.previews.get(job_id)
                    if any(event.event == "progress" for event in news):
                        news, shown = show(news, latest if latest is not shown else None), latest
                for event in news:
                    yield event
                    seen = _order(event.id)
                    if event.event == "done":
                        return
                if status.is_terminal:
                    return
                await bell.wait()

    async def wait(self, job_id: str, timeout_s: float) -> None:
        with self._bell(job_id) as bell, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not (self._is_over or self._job(job_id).status.is_terminal):
                    await bell.wait()
                    bell.clear()

    def end(self) -> None:
        self._is_over = True
        for _, loop, bell in list(self.store.bells):
            loop.call_soon_threadsafe(bell.set)

    async def close(self) -> None:
        return None

    @contextlib.contextmanager
    def _bell(self, job_id: str) -> Iterator[asyncio.Event]:
        entry = (job_id, asyncio.get_running_loop(), asyncio.Event())
        self.store.bells.append(entry)
        try:
            yield entry[2]
        finally:
            self.store.bells.remove(entry)

    async def announce(
        self, job_id: str, seconds: int = FOLLOWED_S, *, previews: bool = False
    ) -> JobStatus:
        job, record, now = self._job(job_id), self.store.records[job_id], self.store.now()
        is_new = record.followed <= now or (previews and record.previewed <= now)
        at = job.progress
        if not record.followed and job.status is JobStatus.RUNNING and at.step:
            self.store.emit(job_id, "progress", {"step": at.step, "steps": at.steps})
        record.followed = max(record.followed, now + seconds)
        if previews:
            record.previewed = max(record.previewed, now + seconds)
        if seconds and is_new and job.status is JobStatus.RUNNING:
            self.store.stop(record)
        return job.status

    def _job(self, job_id: str) -> Job:
        if job_id not in self.store.records:
            raise no_such_job(job_id)
        return self.store.records[job_id].job


def _order(name: str) -> tuple[int, int]:
    first, _, second = name.partition("-")
    return (int(first), int(second or 0)) if first.isdigit() else (0, 0)
