"""Job store of a worker: claim, renew, report progress, finish, release, stop notices."""

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol

from redis import Redis
from redis.client import PubSub

from core.codec import encode, encode_short
from core.errors import NewerSchema, StoreUnavailable
from core.job import Claim, Failure, JobStatus, Progress, StoredImage, Timing
from core.log import get_logger
from core.placement import Placement
from storage.archive.records import Fields
from storage.jobs.record import read_job
from storage.redis.connect import Word, converting_errors
from storage.redis.keys import stop_channel
from storage.redis.script import call_sync, load, pairs

POST_PAUSE_S = 5.0  #: between two `progress` webhooks of one job
RETRY_S = 0.5  #: between two tries to reach a store that is away

NO_TIMING = Timing()
NO_PREVIEWS: Mapping[str, str] = MappingProxyType({})
NO_PROGRESS: Mapping[str, Progress] = MappingProxyType({})

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a claimed job."""

    status: JobStatus  #: succeeded, failed or expired
    images: tuple[StoredImage, ...] = ()
    failure: Failure | None = None  #: why it failed
    placement: Placement | None = None  #: with the level it really got, if that is another one
    timing: Timing = NO_TIMING  #: queue and total seconds are filled in by the store's clock
    device_s: float = 0.0  #: time of a device that it has taken


class Heard(IntEnum):
    """What a worker hears of a job when it renews its lease."""

    LOST = 0  #: it is held no more
    HELD = 1
    FOLLOWED = 2  #: somebody follows it: its progress is told
    PREVIEWED = 3  #: and wants previews


class Leases(Protocol):
    """What a worker asks of the job store."""

    followed: dict[str, bool]  #: jobs that somebody follows: whether previews are wanted

    def claim(self, job_id: str, *, is_exact: bool = False, rung: str = "") -> Claim | None:
        """Take the queued job whose turn it is; None: there is nothing to make, drop the message.

        Args:
            job_id: the job that a message names; it stands for all jobs of its list.
            is_exact: take this job and no other.
            rung: the queue whose bell rang, where bells stand for no job but for their queue.
        """

    def isolate(self, job_id: str, fence: int) -> bool:
        """Note that a claimed job is made alone from now on; False: it is ours no more."""

    def credit(self, job_id: str, fence: int, furthest: int) -> bool:
        """Take back an attempt of a claimed job that came further than any before it.

        Args:
            furthest: how far, in any unit that grows.

        Returns whether it did.
        """

    def beat(
        self, held: Mapping[str, int], done: Mapping[str, Progress] = NO_PROGRESS
    ) -> list[str]:
        """Renew the leases of jobs (id -> fence), and note how far those of `done` have come.

        Returns the ids that are no longer held; `followed` is as it is then.
        """

    def progress(
        self, done: Mapping[str, Progress], previews: Mapping[str, str] = NO_PREVIEWS
    ) -> None:
        """Tell followers how far jobs claimed by this object have come, and show them previews.

        Args:
            done: by job id.
            previews: documents of some of these jobs, by id.
        """

    def finish(self, job_id: str, fence: int, outcome: Outcome) -> bool:
        """End a job; False means that it belongs to somebody else or has ended: drop the images."""

    def release(self, held: Mapping[str, int]) -> int:
        """Hand jobs (id -> fence) back to their queues at once; return how many were held."""

    def forfeit(self, held: Mapping[str, int]) -> None:
        """Let the leases of jobs (id -> fence) run out now, as if this worker had died."""

    def stops(self, timeout_s: float) -> Iterator[str]:
        """Yield ids of jobs to stop as they come; end after `timeout_s` of silence."""

    def close(self) -> None:
        """Give up the subscription of `stops`."""


class LeaseStore:
    """The claims of one worker. Thread-safe; every call is one script, checked by fence."""

    def __init__(
        self,
        redis: Redis,
        *,
        worker: str,
        lease_s: float,
        max_attempts: int = 0,
        device_type: str = "cpu",
    ) -> None:
        """Prepare; on whose account a worker's time is put depends on the type of its device."""
        self._redis = redis
        self._worker = worker
        self._device_type = device_type
        self._lease_ms = int(lease_s * 1000)
        self._max_attempts = max_attempts
        self._fences: dict[str, int] = {}
        self.followed: dict[str, bool] = {}
        self._pubsub: PubSub | None = None

    def claim(self, job_id: str, *, is_exact: bool = False, rung: str = "") -> Claim | None:
        """Take the queued job whose turn it is; None: there is nothing to make, drop the message.

        Args:
            job_id: the job that a message names; it stands for all jobs of its list.
            is_exact: take this job and no other.
            rung: the queue whose bell rang, where bells stand for no job but for their queue.
        """
        limits = (self._lease_ms, secrets.token_hex(8), self._max_attempts, int(is_exact))
        words = (self._worker, *limits, self._device_type, rung)
        found = call_sync(self._redis, load("claim"), job_id, *words)
        if not found:
            return None
        name, flat = found
        fields = pairs(flat)
        try:
            job = read_job(name.decode(), fields)
        except NewerSchema as error:
            _log.error("job_left_to_newer", job=name.decode(), reason=str(error))
            self.release({name.decode(): int(fields[b"fence"])})
            return None
        self._fences[job.id] = job.fence
        self._hear(job.id, _followed(fields))
        return Claim(
            job=job,
            fence=job.fence,
            lease_until=int(fields[b"lease_until"]) / 1e3,
            earlier=tuple(map(int, fields[b"fences"].split(b",")))[:-1],
        )

    def isolate(self, job_id: str, fence: int) -> bool:
        """Note that a claimed job is made alone from now on; False: it is ours no more.

        If this worker is lost after that, the job is to blame, and no other that it holds.
        """
        return bool(call_sync(self._redis, load("isolate"), job_id, fence, self._worker))

    def credit(self, job_id: str, fence: int, furthest: int) -> bool:
        """Take back an attempt of a claimed job that came further than any before it.

        Its worker was lost, but not over the same step again: a job that moves is not to blame.
        """
        return bool(call_sync(self._redis, load("credit"), job_id, fence, self._worker, furthest))

    def beat(
        self, held: Mapping[str, int], done: Mapping[str, Progress] = NO_PROGRESS
    ) -> list[str]:
        """Renew the leases of jobs (id -> fence), and note how far those of `done` have come.

        Returns the ids that are no longer held; `followed` is as it is then.
        """
        return self._renew(held, self._lease_ms, done)

    def progress(
        self, done: Mapping[str, Progress], previews: Mapping[str, str] = NO_PREVIEWS
    ) -> None:
        """Tell followers how far jobs claimed by this object have come, and show them previews.

        Their leases are renewed with it.
        """
        held = {job_id: self._fences[job_id] for job_id in done if job_id in self._fences}
        self._renew(held, self._lease_ms, done, previews)

    def finish(self, job_id: str, fence: int, outcome: Outcome) -> bool:
        """End a job; False means that it belongs to somebody else or has ended: drop the images.

        A call repeated after a lost answer returns True again and changes nothing.
        """
        failure = encode(outcome.failure) if outcome.failure else ""
        images, timing = encode_short(outcome.images), encode_short(outcome.timing)
        placement = encode_short(outcome.placement) if outcome.placement else ""
        done = call_sync(
            self._redis,
            load("finish"),
            job_id,
            fence,
            self._worker,
            outcome.status.value,
            images,
            failure,
            timing,
            placement,
            outcome.placement.level if outcome.placement else "",
            sum(image.size_bytes for image in outcome.images),
            round(outcome.device_s * 1e3),
        )
        self._drop(job_id, fence)
        return bool(done)

    def release(self, held: Mapping[str, int]) -> int:
        """Hand jobs (id -> fence) back to their queues at once; return how many were held."""
        if not held:
            return 0
        args = [value for pair in held.items() for value in pair]
        for job_id, fence in held.items():
            self._drop(job_id, fence)
        return int(call_sync(self._redis, load("release"), self._worker, *args))

    def forfeit(self, held: Mapping[str, int]) -> None:
        """Let the leases of jobs (id -> fence) run out now, as if this worker had died."""
        self._renew(held, 0)

    def stops(self, timeout_s: float) -> Iterator[str]:
        """Yield ids of jobs to stop as they come; end after `timeout_s` of silence.

        Call it again and again from one thread: the subscription stays open in between. A store
        that is away only ends the iteration: what was missed is among the ids `beat` returns.
        """
        try:
            yield from self._listen(timeout_s)
        except StoreUnavailable as error:
            _log.warning("stops_interrupted", worker=self._worker, reason=str(error))
            self.close()
            time.sleep(min(RETRY_S, timeout_s))

    def close(self) -> None:
        """Give up the subscription of `stops`."""
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            pubsub.close()

    def _renew(
        self,
        held: Mapping[str, int],
        lease_ms: int,
        done: Mapping[str, Progress] = NO_PROGRESS,
        previews: Mapping[str, str] = NO_PREVIEWS,
    ) -> list[str]:
        if not held:
            return []
        args: list[Word] = [self._worker, lease_ms, int(POST_PAUSE_S * 1000)]
        for job_id, fence in held.items():
            at = done.get(job_id)
            told: tuple[Word, ...] = ("", "", "")
            if at is not None:
                told = (at.step, at.steps, round(at.device_s * 1e3))
            args += [job_id, fence, *told, previews.get(job_id, "")]
        answers = call_sync(self._redis, load("beat"), *args)
        heard = {job_id: Heard(answer) for job_id, answer in zip(held, answers, strict=True)}
        lost = [job_id for job_id, answer in heard.items() if answer is Heard.LOST]
        for job_id, answer in heard.items():
            if answer is Heard.LOST:
                self._drop(job_id, held[job_id])
            elif self._fences.get(job_id) == held[job_id]:
                self._hear(job_id, answer)
        return lost

    def _hear(self, job_id: str, heard: Heard) -> None:
        if heard > Heard.HELD:
            self.followed[job_id] = heard is Heard.PREVIEWED
        else:
            self.followed.pop(job_id, None)

    def _drop(self, job_id: str, fence: int) -> None:
        """Report no more for one claim; a later one of the same job is left alone."""
        if self._fences.get(job_id) == fence:
            del self._fences[job_id]
            self.followed.pop(job_id, None)

    def _listen(self, timeout_s: float) -> Iterator[str]:
        with converting_errors():
            if self._pubsub is None:
                self._pubsub = self._redis.pubsub()  # type: ignore[no-untyped-call]
                self._pubsub.subscribe(stop_channel(self._worker))
        until = time.monotonic() + timeout_s
        while (left_s := until - time.monotonic()) > 0 and self._pubsub is not None:
            with converting_errors():
                message = self._pubsub.get_message(timeout=left_s)
            if message is not None and message["type"] == "message":
                yield message["data"].decode()
                until = time.monotonic() + timeout_s


def _followed(fields: Fields) -> Heard:
    """Say what the record of a job that has just been claimed tells of followers."""
    now = int(fields[b"started_at"])
    if int(fields.get(b"previewed", 0)) > now:
        return Heard.PREVIEWED
    is_told = int(fields.get(b"followed", 0)) > now
    return (
        Heard.FOLLOWED
        if is_told or b"progress" in fields.get(b"webhook_events", b"")
        else Heard.HELD
    )
