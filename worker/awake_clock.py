"""Count the seconds in which this process ran, not those in which it was stopped. Pure."""

import math


class AwakeClock:
    """Adds up the time between looks; a look that comes late counts as one that was in time.

    Whoever was stopped with its process, or starved of the processor, is not taken for stuck.
    """

    def __init__(self, most_s: float) -> None:
        """Begin at zero; no time between two looks counts more than `most_s`."""
        self._most_s = most_s
        self._looked_at = math.inf
        self.now = 0.0  #: s

    def look(self, at: float) -> float:
        """Note a look at a monotonic time (s), and tell the seconds counted so far."""
        self.now += min(max(at - self._looked_at, 0.0), self._most_s)
        self._looked_at = at
        return self.now


class Lasting:
    """Tells for how long the same thing goes on, by an awake clock. Not for several threads."""

    def __init__(self, most_s: float) -> None:
        """Begin with nothing; see `AwakeClock`."""
        self._awake = AwakeClock(most_s)
        self._seen: object = None
        self._since = 0.0

    def look(self, at: float, what: object) -> float:
        """Note what goes on at a monotonic time (s), and tell for how long that has been seen."""
        now = self._awake.look(at)
        if what is not self._seen:
            self._seen, self._since = what, now
        return now - self._since
