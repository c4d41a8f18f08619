"""Try a rate on a running service: warm it up, then count who is late; stop when it is decided."""

import asyncio
from collections.abc import Callable, Sequence

import aiohttp

from loadgen.arrivals.gaps import Seconds
from loadgen.ask import TimedRequest
from loadgen.capacity.search import CapacitySearch, Trial
from loadgen.client.follow import Follower
from loadgen.client.load_client import LoadClient
from loadgen.promise import is_late, kept
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
        asked, late = watching.result() if stop.is_set() else self._count(samples)
        return Trial(rate=rate, asked=asked, late=late, is_cut=stop.is_set())

    async def _watch(
        self, client: LoadClient, asks: Sequence[TimedRequest], stop: asyncio.Event
    ) -> tuple[int, int]:
        """Stop a trial in which so many are late that it tells enough; count asked and late.

        It is counted before it is stopped: the stop takes back what is on its way.
        """
        planned = sum(each.at_s >= self._warm_up_s for each in asks)
        asked, late = self._count_by_now(client, planned)
        while late <= self._enough * asked:
            await asyncio.sleep(LOOK_S)
            asked, late = self._count_by_now(client, planned)
        stop.set()
        return asked, late

    def _count_by_now(self, client: LoadClient, planned: int) -> tuple[int, int]:
        """Count who is planned and has not been taken back, and who of them is late so far."""
        ended = [each for each in client.tally.ended if each.due_s >= self._warm_up_s]
        asked, late = self._count(ended)
        overdue = client.overdue(self._slo_s, self._warm_up_s)
        return planned - (len(ended) - asked), late + overdue

    def _count(self, samples: Sequence[RequestSample]) -> tuple[int, int]:
        """Count who came after the warm-up and was not taken back, and who of them was late."""
        asked = [each for each in kept(samples) if each.due_s >= self._warm_up_s]
        return len(asked), sum(is_late(each, self._slo_s) for each in asked)


async def find(
    search: CapacitySearch, trials: LiveTrials, tell: Callable[[Trial], None]
) -> CapacitySearch:
    """Try rates until the capacity is known well enough."""
    while (rate := search.next_rate()) is not None:
        trial = await trials.measure(rate, search.length)
        search.note(trial)
        tell(trial)
    return search
