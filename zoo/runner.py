"""Training loop: progress, checkpoints, orderly stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.log import get_logger

log = get_logger(__name__)

_LOG_EVERY = 50


class Run(Protocol):
    """A training that advances by steps and can be put aside."""

    #: Steps done.
    step: int

    def advance(self) -> float:
        """Take one step and give its loss."""

    def save(self, path: Path) -> None:
        """Write a checkpoint."""

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""


class StopRequest:
    """Whether someone asked the process to stop."""

    def __init__(self) -> None:
        self.is_set = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Remember the signal; the run ends after the step at hand."""
        self.is_set = True


@contextmanager
def _listening() -> Iterator[StopRequest]:
    request = StopRequest()
    before = {number: signal.signal(number, request) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _columns() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    )


def run(training: Run, name: str, steps: int, checkpoint: Path, save_every: int) -> bool:
    """Advance a training to its last step, from its checkpoint if there is one.

    SIGTERM and SIGINT write a checkpoint and end the run early; then the answer is False.
    """
    if checkpoint.exists():
        training.load(checkpoint)
    with _listening() as stop, _columns() as progress:
        task = progress.add_task(name, total=steps, completed=training.step, loss=float("nan"))
        while training.step < steps and not stop.is_set:
            loss = training.advance()
            progress.update(task, completed=training.step, loss=loss)
            if training.step % _LOG_EVERY == 0:
                log.info("zoo.step", stage=name, step=training.step, loss=round(loss, 4))
            if training.step % save_every == 0 and training.step < steps:
                training.save(checkpoint)
    training.save(checkpoint)
    return training.step >= steps
