"""Previews of images on their way: who watches a job, and the latest picture of it.

Neither is kept in the job's stream: both are keys that end by themselves.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from redis.asyncio import Redis

from core.codec import decode
from core.job import JobEvent
from storage.redis.connect import ask
from storage.redis.keys import preview_key, watched_key

WATCHED_S = 10  #: after so long without a word of its followers a job is watched no more
RENEW_S = 3.0  #: a follower says so often that it still watches

#: What is said beside a step: as the worker wrote it.
Preview = dict[str, object]


def show(events: Sequence[JobEvent], preview: Preview | None) -> list[JobEvent]:
    """Put a preview into the last event that says how far a job is, unless it shows more steps."""
    shown = list(events)
    if preview is None:
        return shown
    said = {name: value for name, value in preview.items() if name != "step"}
    for at in reversed(range(len(shown))):
        data = shown[at].data
        if shown[at].event == "progress":
            if int(str(data["step"])) >= int(str(preview["step"])):
                shown[at] = replace(shown[at], data={**shown[at].data, **said})
            break
    return shown


class NoWatch:
    """What follows a job and asks for no previews."""

    async def renew(self) -> None:
        """Say nothing."""

    async def show(self, events: Sequence[JobEvent]) -> Sequence[JobEvent]:
        """Leave events as they are."""
        return events


NO_WATCH: Final = NoWatch()


class PreviewWatch(NoWatch):
    """One follower's watch over a job."""

    def __init__(self, redis: Redis, job_id: str) -> None:
        self._redis = redis
        self._job_id = job_id
        self._renew_at = 0.0  #: monotonic s
        self._last = b""  #: preview that it has shown

    async def renew(self) -> None:
        """Say that the job is watched, if that was said long ago."""
        now = time.monotonic()
        if now >= self._renew_at:
            await ask(self._redis, "SET", watched_key(self._job_id), 1, "EX", WATCHED_S)
            self._renew_at = now + RENEW_S

    async def show(self, events: Sequence[JobEvent]) -> Sequence[JobEvent]:
        """Put the latest preview into events that say how far the job is, once."""
        if not any(event.event == "progress" for event in events):
            return events
        latest = await ask(self._redis, "GET", preview_key(self._job_id)) or b""
        preview = decode(latest, Preview) if latest and latest != self._last else None
        self._last = latest
        return show(events, preview)
