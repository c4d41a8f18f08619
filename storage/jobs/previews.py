"""Previews of images on their way: the latest picture, put into what followers are told.

It is not kept in the job's stream: it is a key that ends by itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from redis.asyncio import Redis

from core.codec import decode
from core.job import JobEvent
from storage.redis.connect import ask
from storage.redis.keys import preview_key

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


class NothingShown:
    """Shows a follower none."""

    async def show(self, events: list[JobEvent]) -> list[JobEvent]:
        """Leave events as they are."""
        return events


NOTHING_SHOWN: Final = NothingShown()


class ShownPreviews(NothingShown):
    """What one follower has been shown of a job."""

    def __init__(self, redis: Redis, job_id: str) -> None:
        self._redis = redis
        self._job_id = job_id
        self._last = b""  #: preview that it has shown

    async def show(self, events: list[JobEvent]) -> list[JobEvent]:
        """Put the latest preview into events that say how far the job is, once."""
        if not any(event.event == "progress" for event in events):
            return events
        latest = await ask(self._redis, "GET", preview_key(self._job_id)) or b""
        preview = decode(latest, Preview) if latest and latest != self._last else None
        self._last = latest
        return show(events, preview)
