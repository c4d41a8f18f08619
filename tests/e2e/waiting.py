"""Waiting for a real service, with a limit."""

import time
from collections.abc import Callable

from cli.client.client import Client
from cli.client.views import JobAnswer


def until(happens: Callable[[], object], within_s: float = 30.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < give_up_at, f"not within {within_s} s"
        time.sleep(0.05)


def made(client: Client, job_id: str, within_s: float = 90.0) -> JobAnswer:
    """Wait for the end of a job, over answers that fail meanwhile."""
    give_up_at = time.monotonic() + within_s
    job = client.job(job_id, wait_s=10).view
    while not job.status.is_terminal:
        assert time.monotonic() < give_up_at, f"{job_id} is {job.status} after {within_s} s"
        job = client.job(job_id, wait_s=10).view
    return job


def make(client: Client, **body: object) -> JobAnswer:
    """Submit a job and wait for its end."""
    return made(client, client.submit({"prompt": "a red circle", "seed": 1, **body}).view.id)
