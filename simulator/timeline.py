"""Virtual time: events in their order, and coroutines that wait for it."""

import heapq
import math
from collections.abc import Callable, Coroutine, Generator
from typing import Any

#: Of the first arrival, on the scheduler's clock: moments before it must not be negative.
START_S = 1_000_000.0

Act = Callable[[float], None]


class Sleep:
    """What a coroutine awaits to let virtual time pass."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        yield self._seconds


class Timeline:
    """The clock, and what is to come."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._events: list[tuple[float, int, Act]] = []
        self._count = 0

    def clock(self) -> float:
        """Tell the time, as the scheduler asks for it."""
        return self.now

    @property
    def next_at(self) -> float:
        """When something happens next; infinite: never."""
        return self._events[0][0] if self._events else math.inf

    def at(self, when: float, act: Act) -> None:
        """Do something at a moment; of one moment, what was asked for first comes first."""
        self._count += 1
        heapq.heappush(self._events, (when, self._count, act))

    def every(self, seconds: float, act: Act, *, first: float) -> None:
        """Do something again and again."""

        def again(now: float) -> None:
            act(now)
            self.at(now + seconds, again)

        self.at(first, again)

    def step(self) -> None:
        """Do what is next."""
        self.now, _, act = heapq.heappop(self._events)
        act(self.now)

    def pass_to(self, moment: float) -> None:
        """Do whatever comes until then."""
        events, pop = self._events, heapq.heappop
        while events and events[0][0] <= moment:
            self.now, _, act = pop(events)
            act(self.now)
        self.now = moment

    def drive(self, work: Coroutine[Any, Any, None], then: Callable[[], None]) -> None:
        """Run a coroutine that awaits nothing but `Sleep`, and go on when it has ended."""
        try:
            seconds = work.send(None)
        except StopIteration:
            then()
        else:
            self.at(self.now + seconds, lambda now: self.drive(work, then))
