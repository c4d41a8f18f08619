"""Waiting for a real service, with a limit."""

import time
from collections.abc import Callable

import redis

from atelier_client import Client, Job

#: Seconds within which all comes that comes at all: other work may run beside.
PATIENCE_S = 150.0


def until(happens: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    give_up_at = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < give_up_at, f"not within {within_s} s"
        time.sleep(0.05)


def until_written(store: str) -> None:
    """Wait until a store has handed all to the system that it has accepted, which a kill leaves."""
    with redis.Redis.from_url(store) as client:
        until(lambda: client.info("persistence")["aof_buffer_length"] == 0)


def made(client: Client, job_id: str, within_s: float = PATIENCE_S) -> Job:
    """Wait for the end of a job, over answers that fail meanwhile."""
    give_up_at = time.monotonic() + within_s
    job = client.jobs.get(job_id, wait_s=10)
    while not job.status.is_terminal:
        assert time.monotonic() < give_up_at, f"{job_id} is {job.status} after {within_s} s"
        job = client.jobs.get(job_id, wait_s=10)
    return job


def make(client: Client, **body: object) -> Job:
    """Submit a job of few steps and wait for its end."""
    asked = {"prompt": "a red circle", "seed": 1, "steps": 4, **body}
    return made(client, client.jobs.create(**asked).id)
