"""Read worker reports and queue depths twice a second, by what changed, for load-aware routing."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from core.boards.fleet import FleetChange, QueueDepth, Worker
from core.errors import Unavailable
from core.log import get_logger, log_errors
from scheduler.planning.protocols import Fleet
from storage.boards.fleet_changes import FleetChanges

POLL_S = 0.5
SLICE = 40  #: changes that are passed on before a placement has its turn: about a millisecond

#: Takes in what changed of the workers, and when that was read (s).
Hear = Callable[[FleetChange, float], object]
#: Takes in the depths of all queues, and when they were read (s).
Measure = Callable[[Sequence[QueueDepth], float], object]
#: Reads the depths of all queues.
ReadDepths = Callable[[], Awaitable[Sequence[QueueDepth]]]

log = get_logger(__name__)


class SharedFleet(Fleet):
    """The fleet as last read, for those who ask for all of it and for who asks what changed.

    Whoever asks has it read: who cannot go on while the store is away is told so.
    """

    def __init__(self, reader: FleetChanges, depths: ReadDepths) -> None:
        """Know of no worker yet."""
        self._reader = reader
        self._depths = depths
        self._reading = asyncio.Lock()
        self._workers: dict[str, Worker] = {}  #: by name
        self._names: Sequence[str] = ()  #: in order; not as many as there are: others came or left
        self._sorted: tuple[Worker, ...] | None = ()  #: None: something changed
        self._unheard: dict[str, Worker | None] = {}  #: what nobody was told; None: it is gone

    async def workers(self) -> Sequence[Worker]:
        """List the workers that report, by name; the same list while nothing changes.

        Raises:
            Unavailable: the store does not answer.
        """
        await self._look()
        if len(self._names) != len(self._workers):
            self._names = sorted(self._workers)
        if self._sorted is None:
            self._sorted = tuple(map(self._workers.__getitem__, self._names))
        return self._sorted

    async def depths(self) -> Sequence[QueueDepth]:
        """Count what waits on each queue."""
        return await self._depths()

    async def change(self) -> FleetChange:
        """Say what changed since this was asked last, whoever read it.

        Raises:
            Unavailable: the store does not answer.
        """
        await self._look()
        news, self._unheard = self._unheard, {}
        return FleetChange(
            workers=tuple(worker for worker in news.values() if worker is not None),
            gone=tuple(name for name, worker in news.items() if worker is None),
        )

    async def _look(self) -> None:
        async with self._reading:
            change = await self._reader.look()
        if change.is_empty:
            return
        self._sorted = None
        if change.gone or any(each.name not in self._workers for each in change.workers):
            self._names = ()
        for name in change.gone:
            self._workers.pop(name, None)
            self._unheard[name] = None
        for worker in change.workers:
            self._workers[worker.name] = self._unheard[worker.name] = worker


class Reports:
    """Passes on what is reported. Every scheduler reads, leader or not.

    The leader's `PlanLoop` asks for itself: its round waits for the solver, and must fail while
    the store is away, where this goes on with what it knows.
    """

    def __init__(
        self,
        fleet: SharedFleet,
        hear: Sequence[Hear],
        measure: Measure,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fleet = fleet
        self._hear = hear
        self._measure = measure
        self._clock = clock

    async def run(self) -> None:
        """Read until cancelled. While the store is away, what is known grows stale."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Read once."""
        with log_errors(log, "reports_not_understood"):
            try:
                depths = await self._fleet.depths()
                change = await self._fleet.change()
            except Unavailable as error:
                log.debug("reports_not_read", reason=str(error))
                return
            await self._tell(change)
            self._measure(depths, self._clock())

    async def _tell(self, change: FleetChange) -> None:
        """Pass on changes some at a time: placements wait for no more than those."""
        now = self._clock()
        self._tell_all(FleetChange(gone=change.gone), now)
        for first in range(0, len(change.workers), SLICE):
            self._tell_all(FleetChange(workers=change.workers[first : first + SLICE]), now)
            await asyncio.sleep(0)

    def _tell_all(self, change: FleetChange, now: float) -> None:
        for hear in self._hear:
            hear(change, now)
