"""Thread-safe registry of jobs in the engine; each future resolves exactly once."""

import threading
from collections.abc import Mapping

from core.errors import AtelierError, EngineError, JobStopped
from core.job import Progress
from worker.engine.slot import JobImages, Ticket


class Tickets:
    """The open tickets by job id. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Ticket] = {}
        self._stopping: set[Ticket] = set()

    def open(self, ticket: Ticket) -> bool:
        """Take a new job in; say no if it is here already and nobody has stopped it."""
        ticket.future.set_running_or_notify_cancel()
        with self._lock:
            if ticket.job.id in self._open:
                return False
            self._open[ticket.job.id] = ticket
            return True

    def stop(self, job_id: str, reason: JobStopped) -> None:
        """Mark a job to leave before the next step. Its id is free for a new claim at once."""
        with self._lock:
            ticket = self._open.pop(job_id, None)
            if ticket is not None:
                ticket.stopped = reason
                self._stopping.add(ticket)

    def take_stopped(self) -> list[Ticket]:
        """Return the tickets marked since the last call."""
        with self._lock:
            stopped = list(self._stopping)
            self._stopping.clear()
            return stopped

    def succeed(self, ticket: Ticket, made: JobImages) -> None:
        """Resolve a job with its images."""
        if self._close(ticket):
            ticket.future.set_result(made)

    def fail(self, ticket: Ticket, error: AtelierError) -> None:
        """Resolve a job with the reason why there are no images."""
        if self._close(ticket):
            ticket.future.set_exception(error)

    def _close(self, ticket: Ticket) -> bool:
        with self._lock:
            was_open, ticket.is_closed = not ticket.is_closed, True
            if self._open.get(ticket.job.id) is ticket:
                del self._open[ticket.job.id]
            self._stopping.discard(ticket)
            return was_open

    def fail_all(self, error: EngineError | JobStopped) -> None:
        """Resolve everything that is still open."""
        with self._lock:
            tickets = [*self._open.values(), *self._stopping]
        for ticket in tickets:
            self.fail(ticket, ticket.stopped or error)

    def progress(self) -> Mapping[str, Progress]:
        """How far each job has come."""
        with self._lock:
            return {job_id: ticket.progress for job_id, ticket in self._open.items()}
