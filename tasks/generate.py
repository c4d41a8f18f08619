"""Celery task of a job; the engine has made the images before its body runs."""

from tasks.app import app
from tasks.messages import GENERATE
from worker.jobs.claimed import take


def generate(job_id: str) -> int:
    """Return how many images the job has got; raise why it has none."""
    return take(job_id)


task = app.task(generate, name=GENERATE, Request="tasks.doorbell:DoorbellRequest")
