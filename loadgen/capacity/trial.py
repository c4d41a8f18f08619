"""Try a rate on a running service: warm it up, then count who is late; stop when it is decided."""

import asyncio
from collections.abc import Callable, Sequence

import aiohttp

from loadgen.arrivals.gaps import Seconds
from loadgen.ask import TimedRequest
from loadgen.capacity.search import CapacitySearch, Trial
from loadgen.client.follow import Follower
from loadgen.client.load_client import LoadClient
from loadgen.promise import is_late
from loadgen.sample import RequestSample

#: Seconds between two looks at who is late.
LOOK_S = 0.2
#: Share of late requests at which a trial is cut, if not twice as many are allowed. Where it is cut
#: as soon as too many are late, it cannot say by how much, and chance is taken for capacity.
ENOUGH = 0.25
#: How many times its SLO a job is waited for at most.
PATIENCE = 4.0

#: Draws the requests of a trial: rate, its number, how many times as long it is -> requests.
Draw = Callable[[float, int, int], Sequence[TimedRequest]]


def exactly(seconds: Seconds, rate: float, length_s: float) -> Seconds:
    """Stretch drawn arrivals, so that they come at the very rate that they were drawn for.

    Of 500 Poisson arrivals as many as 4 % more or fewer come by chance, which a trial would take
    for the service's doing.
    """
    return seconds * (len(seconds) / (rate * length_s))


class LiveTrials:
    """Tries rates one after another."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        follower: Follower,
        draw: Draw,
        *,
        slo_s: float,
        max_late: float,
        warm_up_s: float,
    ) -> None:
        self._http, self._follower, self._draw = http, follower, draw
        self._slo_s, self._enough, self._warm_up_s = slo_s, max(ENOUGH, 2 * max_late), warm_up_s
        self._made = 0

    async def measure(self, rate: float, length: int = 1) -> Trial:
        """Ask at a rate until it is decided whether too many are late.

        Args:
            length: so many times as many requests are counted as in the shortest trial.
        """
        asks = self._draw(rate, self._made, length)
        self._made += 1
        client = LoadClient(
            self._http, patience_s=PATIENCE * self._slo_s + 1, follower=self._follower
        )
        stop = asyncio.Event()
        watching = asyncio.create_task(self._watch(client, asks, stop))
        try:
            samples = await client.drive(asks, stop=stop)
        finally:
            watching.cancel()
        counted = [each for each in asks if each.at_s >= self._warm_up_s]
        late = self._late(samples) if not stop.is_set() else watching.result()
        return Trial(rate=rate, asked=len(counted), late=late, is_cut=stop.is_set())

    async def _watch(
        self, client: LoadClient, asks: Sequence[TimedRequest], stop: asyncio.Event
    ) -> int:
        """Stop a trial in which so many are late that it tells enough."""
        counted = sum(each.at_s >= self._warm_up_s for each in asks)
        while (late := self._late_by_now(client)) <= self._enough * counted:
            await asyncio.sleep(LOOK_S)
        stop.set()
        return late

    def _late_by_now(self, client: LoadClient) -> int:
        overdue = client.overdue(self._slo_s, self._warm_up_s)
        return overdue + self._late(client.tally.ended)

    def _late(self, samples: Sequence[RequestSample]) -> int:
        return sum(is_late(s, self._slo_s) for s in samples if s.due_s >= self._warm_up_s)


async def find(
    search: CapacitySearch, trials: LiveTrials, tell: Callable[[Trial], None]
) -> CapacitySearch:
    """Try rates until the capacity is known well enough."""
    while (rate := search.next_rate()) is not None:
        trial = await trials.measure(rate, search.length)
        search.note(trial)
        tell(trial)
    return search
