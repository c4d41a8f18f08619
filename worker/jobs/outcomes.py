"""Pass job outcomes from the engine to the bodies of Celery tasks.

The pool leaves the outcome here and then lets Celery's own tracer run the task's body, which
takes it: so events, signals and runtimes are Celery's. Imports no torch.
"""

from core.errors import EngineError

_outcomes: dict[str, int | Exception] = {}


def leave(task_id: str, outcome: int | Exception) -> None:
    """Keep the number of images made, or the reason why there are none."""
    _outcomes[task_id] = outcome


def take(task_id: str) -> int:
    """Return how many images a job has got, once.

    Raises:
        Exception: why the job was not made, as its executor left it.
        EngineError: nobody has made it: this worker runs no engine.
    """
    outcome = _outcomes.pop(task_id, None)
    if outcome is None:
        raise EngineError("this worker runs no engine")
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
