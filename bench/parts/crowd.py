"""Send more jobs to a few workers than they can make, and let those who are refused come again.

In virtual time, by the scheduler's own admission: it sees what workers and queues report once a
second, and clients obey `Retry-After` in whole seconds, or give up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.parts.simulated_workers import REPORT_S, Asked, Drop, Workshop
from core.boards.cost import Cost
from core.boards.fleet import FleetChange, QueueDepth, Worker
from core.boards.plan import Plan
from core.model import Model
from core.placement import PlacementQuery, queue_of
from scheduler.placement.admission import AdmissionControl
from scheduler.placement.backlog import Backlog, Sent
from scheduler.routing.stations import Work

DEVICE = "cpu"


@dataclass(slots=True, kw_only=True)
class Client(Asked):
    """One who asks for an image."""

    ticket: str
    is_patient: bool = True  #: comes again when told; else it gives up
    told_s: float | None = None  #: when it was told first to come again
    told_at: float = 0.0
    taken_at: float | None = None
    is_checked: bool = True  #: by admission


class Crowd(Workshop):
    """Workers behind a door."""

    def __init__(
        self, cost: Cost, model: Model, *, workers: int, slots: int, max_queue: int
    ) -> None:
        super().__init__(cost, workers=workers, slots=slots, drop=Drop.NEVER)
        self._model, self._own_slots = model, slots
        self._backlog = Backlog({model.name: model})
        self._admission = AdmissionControl(max_queue=max_queue)
        self._plan = Plan(
            version=1,
            fence=1,
            made_at=0.0,
            policy="atelier",
            assignments={f"w{i}": model.name for i in range(workers)},
            pasm=(),
            costs={DEVICE: {model.name: cost}},
            loads={DEVICE: {model.name: model.load_s}},
        )

    def serve(self, clients: Sequence[Client], *, seconds: float) -> None:
        """Let clients come, and see what becomes of them in so long."""
        self._mean_steps = sum(client.steps for client in clients) / len(clients)
        for second in range(int(seconds / REPORT_S) + 1):
            self._at(second * REPORT_S, self._report)
        for client in clients:
            self._at(client.at, lambda now, client=client: self._come(client, now))  # type: ignore[misc]
        self.run()

    def _report(self, now: float) -> None:
        super()._report(now)
        workers = [
            Worker(
                name=f"w{i}",
                device_type=DEVICE,
                models=(self._model.name,),
                queues=(),
                memory_gib=4.0,
                max_slots=self._own_slots,
                running=len(worker.engine.running),
            )
            for i, worker in enumerate(self._workers)
        ]
        queue, waiting = queue_of(self._model.name), len(self._queue)
        self._backlog.hear(FleetChange(workers=workers), now)
        self._backlog.measure([QueueDepth(queue=queue, waiting=waiting, oldest_s=0.0)], now)

    def _come(self, client: Client, now: float) -> None:
        queue, work = queue_of(self._model.name), Work(steps=client.steps)
        limit_s = client.deadline_s if client.is_checked else None
        query = PlacementQuery(prompt="", models=(), max_wait_s=limit_s, ticket=client.ticket)
        before = self._backlog.before(queue, query, self._admission.max_queue, self._plan, now)
        refusal = before and self._admission.check(queue, work, query, before, now)
        if refusal is None:
            client.taken_at, client.predicted_s = now, self.eta_s(client)
            client.at = now
            sent = Sent(at=now, queue=queue, work=work, is_batch=False)
            self._backlog.send(sent, self._plan)
            self._queue_up(client, now)
            return
        if client.told_s is None:
            client.told_s, client.told_at = refusal.retry_after_s, now
        if client.is_patient:
            again = now + max(1, math.ceil(refusal.retry_after_s))
            self._at(again, lambda now: self._come(client, now))

    def eta_s(self, client: Client) -> float:
        """Predict when a job that comes now is done, as the api does."""
        return self.station().eta_s(Work(steps=client.steps), len(self._queue))
