"""The task that makes a job's images. The engine has made them before this body runs."""

from tasks.app import app
from tasks.messages import GENERATE
from worker import outcomes


def generate(job_id: str) -> int:
    """Return how many images the job has got; raise why it has none."""
    return outcomes.take(job_id)


task = app.task(generate, name=GENERATE, Request="tasks.doorbell:DoorbellRequest")
