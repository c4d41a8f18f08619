"""Jobs: submit, read, wait for, follow, list, cancel, delete."""

import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, Unpack
from urllib.parse import quote
from uuid import uuid4

from atelier_client.errors import JobFailed, NoAnswer, ProblemError, WaitTimeout
from atelier_client.exchange.endpoints import Resource, RunnerT, endpoint, source
from atelier_client.exchange.flows import all_of, ask
from atelier_client.exchange.following import MAX_RECONNECTS, follow, pause_s
from atelier_client.exchange.retries import MAX_WAIT_S, PASSING
from atelier_client.exchange.steps import Call, Flow, Pause, Source
from atelier_client.pictures import with_pictures
from atelier_client.resources.kept import given
from atelier_client.types.job import Event, Job, JobStatus
from atelier_client.types.kept import Deleted, Page
from atelier_client.types.request import JobFields, Picture

#: Seconds that one long poll lasts at most, and that its answer may come later.
POLL_S = 50.0
SLACK_S = 15.0

Clock = Callable[[], float]


class Jobs(Resource[RunnerT]):
    """Jobs of the tenant: `/v1/jobs`."""

    @endpoint
    def create(
        self,
        prompt: str | None = None,
        *,
        task: str | None = None,
        template: Picture | None = None,
        mask: Picture | None = None,
        image: Picture | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[JobFields],
    ) -> Flow[Job]:
        """Ask for images and return at once.

        Sent again by itself if no answer comes: the key that goes with it makes both the same job.
        """
        asked: dict[str, Any] = {
            "task": task,
            "prompt": prompt,
            "template": template,
            "mask": mask,
            "image": image,
            **fields,
        }
        return submit(asked, idempotency_key)

    @endpoint
    def get(self, job_id: str, *, wait_s: float = 0.0) -> Flow[Job]:
        """Read a job; with `wait_s` (up to 60), when it has ended or after so many seconds."""
        return read_job(job_id, wait_s)

    @endpoint
    def wait(self, job_id: str, *, timeout_s: float | None = None) -> Flow[Job]:
        """Wait until a job has ended, and return it whatever became of it.

        Raises:
            WaitTimeout: it has not ended by then; it goes on.
        """
        return wait_for(job_id, timeout_s)

    @source
    def stream(self, job_id: str, *, previews: bool = False) -> Source[Event]:
        """Give a job's events until it has ended, resumed where a connection breaks off.

        With `previews` a ProgressEvent has a small JPEG of the image on its way, now and then.
        """
        params = {"previews": "true"} if previews else {}
        return follow(Call(method="GET", path=f"{_path(job_id)}/events", params=params))

    @endpoint
    def list(
        self, *, status: str | None = None, limit: int = 20, cursor: str | None = None
    ) -> Flow[Page[Job]]:
        """Read one page of jobs, newest first; `buried` are those that `retry` tries again."""
        return list_jobs(status, limit, cursor)

    @source
    def all(self, *, status: str | None = None) -> Source[Job]:
        """Give all jobs, newest first, page by page."""
        return all_of(partial(list_jobs, status, 100))

    @endpoint
    def cancel(self, job_id: str) -> Flow[Job]:
        """Stop a job within a step; one that has ended stays as it is."""
        return ask(Call(method="POST", path=f"{_path(job_id)}/cancel", may_repeat=True), Job)

    @endpoint
    def delete(self, job_id: str, *, tenant: str | None = None) -> Flow[Deleted]:
        """Delete a job with its images, stopped first if need be; operators name a tenant."""
        call = Call(method="DELETE", path=_path(job_id), params=given(tenant=tenant))
        return ask(call, Deleted)

    @endpoint
    def retry(self, job_id: str) -> Flow[Job]:
        """Queue a buried job again, with all its attempts."""
        return ask(Call(method="POST", path=f"{_path(job_id)}/retry", may_repeat=True), Job)


def submit(asked: dict[str, Any], idempotency_key: str | None = None) -> Flow[Job]:
    """Ask for a job."""
    call = Call(
        method="POST",
        path="/v1/jobs",
        json=with_pictures(asked),
        headers={"Idempotency-Key": idempotency_key or uuid4().hex},
        may_repeat=True,
    )
    return ask(call, Job)


def read_job(job_id: str, wait_s: float = 0.0) -> Flow[Job]:
    """Read a job once."""
    params = {"wait": wait_s} if wait_s else {}
    timeout_s = wait_s + SLACK_S if wait_s else None
    call = Call(
        method="GET", path=_path(job_id), params=params, timeout_s=timeout_s, may_repeat=True
    )
    return ask(call, Job)


def wait_for(job_id: str, timeout_s: float | None, clock: Clock = time.monotonic) -> Flow[Job]:
    """Read a job by long polls until it has ended, whoever does not answer for a moment."""
    until = inf if timeout_s is None else clock() + timeout_s
    while True:
        job = yield from _poll(job_id, until, clock)
        if job.status.is_terminal:
            return job
        if timeout_s is not None and clock() >= until:
            raise WaitTimeout(job, timeout_s)


def _poll(job_id: str, until: float, clock: Clock) -> Flow[Job]:
    """Read a job by one long poll, or by another while the service is away."""
    broken = 0
    while True:
        left_s = max(0.0, until - clock())
        try:
            return (yield from read_job(job_id, round(min(POLL_S, left_s), 3)))
        except (NoAnswer, ProblemError) as error:
            if broken >= MAX_RECONNECTS or not left_s or not _passes(error):
                raise
            told_s = error.retry_after_s if isinstance(error, ProblemError) else None
        yield Pause(min(left_s, pause_s(broken, told_s)))
        broken += 1


def _passes(error: NoAnswer | ProblemError) -> bool:
    """Tell whether to ask again for a job that goes on meanwhile."""
    if isinstance(error, NoAnswer):
        return True
    return error.status in PASSING and (error.retry_after_s or 0.0) <= MAX_WAIT_S


def made(
    asked: dict[str, Any], timeout_s: float | None, idempotency_key: str | None = None
) -> Flow[Job]:
    """Ask for a job and wait for its images; raises WaitTimeout, JobFailed."""
    job = yield from submit(asked, idempotency_key)
    if not job.status.is_terminal:
        job = yield from wait_for(job.id, timeout_s)
    if job.status is not JobStatus.SUCCEEDED:
        raise JobFailed(job)
    return job


def list_jobs(status: str | None, limit: int, cursor: str | None) -> Flow[Page[Job]]:
    """Read one page of jobs."""
    wanted = {"status": status, "limit": limit, "cursor": cursor}
    params = {name: value for name, value in wanted.items() if value is not None}
    return ask(Call(method="GET", path="/v1/jobs", params=params, may_repeat=True), Page[Job])


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"
