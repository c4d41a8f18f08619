"""Learn from how long steps have taken how long one may take. Pure.

A step that hangs never ends, so the longest of those that ended is no hang. The first ones of a
shape count apart: they may compile, tune and fetch what the others find.
"""

import threading
from collections import deque
from collections.abc import Hashable

#: A step may take so many times what the longest of the last ones took.
FACTOR = 20.0
#: And the first ones of a shape so many times what was expected: perhaps of another machine.
EXPECTED_FACTOR = 60.0
#: Steps that are remembered of each shape.
REMEMBERED = 64
#: Shapes that are remembered.
MOST_SHAPES = 10_000
#: Steps of a shape that have to be seen before it is known.
MIN_SEEN = 3
#: The first steps of a shape may take so long where its model is known, and is not compiled.
FIRST_S = 30.0
#: And where it is compiled, or nothing is known of it at all.
UNKNOWN_S = 1800.0


class StepLimits:
    """The limits of one worker. May be asked by another thread than the one that steps."""

    def __init__(self, least_s: float) -> None:
        """Know nothing; no step is limited to less than `least_s`."""
        self._least_s = least_s
        self._lock = threading.Lock()
        self._seen: dict[Hashable, deque[float]] = {}  #: seconds, by shape

    def note(self, key: Hashable, seconds: float) -> None:
        """Note a step that has ended; the first of its shape tells nothing."""
        with self._lock:
            if key not in self._seen:
                if len(self._seen) >= MOST_SHAPES:  # whoever names ever new ones takes no memory
                    del self._seen[next(iter(self._seen))]
                self._seen[key] = deque(maxlen=REMEMBERED)
            else:
                self._seen[key].append(seconds)

    def limit_s(
        self, key: Hashable, expected_s: float | None, *, is_compiled: bool, is_steady: bool = True
    ) -> float:
        """Say how long a step may take.

        `expected_s`: of such a step, as it was profiled or tried; None: nobody knows.
        `is_steady`: those alike take alike; a prompt that is kept is read in no time, another not.
        """
        with self._lock:
            seen = tuple(self._seen.get(key, ()))
        if len(seen) >= MIN_SEEN and is_steady:
            return max(self._least_s, FACTOR * max(seen))
        is_known = expected_s is not None and not is_compiled
        first_s = FIRST_S if is_known else UNKNOWN_S
        expected_s = EXPECTED_FACTOR * (expected_s or 0.0)
        return max(self._least_s, first_s, expected_s, FACTOR * max(seen, default=0.0))
