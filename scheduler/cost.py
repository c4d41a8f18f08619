"""When will a job be done? Pure arithmetic over what workers report; no clock, no I/O."""

from collections.abc import Sequence

from core.fleet import Worker
from core.job import JobRequest
from core.variant import Model


def step_time(workers: Sequence[Worker], model: Model) -> float:
    """Mean time of one denoising step of the workers' batches; the model's guess until measured.

    Units: seconds
    """
    measured = [worker.step_s for worker in workers if worker.step_s > 0]
    return sum(measured) / len(measured) if measured else model.step_s


def eta(
    request: JobRequest, model: Model, fleet: Sequence[Worker], *, ahead: int = 0, done: int = 0
) -> float | None:
    """Seconds until the last step of a job, or None if no worker holds its model.

    A job that finds no free slot waits until as many slots have come free as there are jobs
    before it; slots come free at the pace of jobs of default steps.

    Args:
        ahead: jobs of its queue that are served first; 0 for one that runs.
        done: steps done already; a job that runs waits for nobody.
    """
    holders = [worker for worker in fleet if model.name in worker.models]
    if not holders:
        return None
    step_s = step_time(holders, model)
    if done > 0:
        return max(0, request.steps - done) * step_s
    slots = sum(worker.max_slots for worker in holders)
    taken = sum(worker.running + worker.waiting for worker in holders)
    too_many = max(0, taken + ahead + request.n - slots)
    pace = slots / (model.default_steps * step_s)  # slots that come free per second
    return too_many / pace + request.steps * step_s
