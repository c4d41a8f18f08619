"""Decide how many images share a step, by how long steps of so many rows take. Pure.

Where a step of eight rows takes eight times one, sharing all slots makes everyone late: eight equal
jobs end at 8 T together where one after the other would end at 4.5 T on average. So no more share a
step than it pays for.
"""

import math
from collections import deque
from collections.abc import Sequence
from statistics import median

#: Jobs that are still to come, for each that is there: what a slow step costs them counts as well.
TO_COME = 16
#: A curve that is off by 3 % may more than double what jobs take, so it is known to this or not.
MAX_ERROR = 0.01
#: Times of one number of rows that are kept, and how many are too few to tell their spread.
WINDOW, FEWEST = 64, 9
#: A step in so many is taken to learn: while there is something to find out, and to keep up.
LEARN_EVERY, KEEP_EVERY = 8, 64
#: Of each step's time, how much goes to what is decoded beside it, an image.
SHARE_ASIDE = 0.06
#: And over how many steps a call is spread at most, however long it takes: somebody waits for it.
MOST_SLICES = 8
#: Standard error of a median, by the median absolute deviation of normal errors.
_ERROR_OF_MEDIAN = 1.4826 * math.sqrt(math.pi / 2)


class RowTimes:
    """How long steps of one number of rows took lately."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=WINDOW)
        self._summed_up = 0
        self.count = 0  #: of all, forgotten ones among them
        self._known: float | None = None

    def note(self, seconds: float) -> None:
        """Note a step; the first of its kind prepares more than it computes."""
        if self.count:
            self._times.append(seconds)
        self.count += 1

    @property
    def seconds(self) -> float | None:
        """Their median (s); None: it is not known well enough."""
        if self.count - self._summed_up >= FEWEST:
            self._summed_up = self.count
            middle = median(self._times)
            spread = median(abs(each - middle) for each in self._times)
            error = _ERROR_OF_MEDIAN * spread / math.sqrt(len(self._times))
            self._known = middle if error <= MAX_ERROR * middle else None
        return self._known


class Sharing:
    """How many rows of one group share a step: all of them, until it is known what that costs."""

    def __init__(self) -> None:
        self.most = 0  #: images that share a step while every slot is taken; 0: not known
        self._times: dict[int, RowTimes] = {}
        self._steps = 0

    def note(self, rows: int, seconds: float) -> None:
        """Note how long a step of so many rows took."""
        self._times.setdefault(rows, RowTimes()).note(seconds)

    def seconds(self, rows: int) -> float | None:
        """Say how long a step of so many rows takes (s); None: that is not known."""
        return self._times[rows].seconds if rows in self._times else None

    def size(self, rows: Sequence[int], *, is_full: bool) -> int:
        """Choose how many images take the next step, of those that could in their order.

        Args:
            rows: of the first image, of the first two, ... of all of them.
            is_full: others wait for a slot, or may soon.
        """
        self._steps += 1
        every = LEARN_EVERY if self._is_learning(rows) else KEEP_EVERY
        if self._steps % every == 0:
            return 1 + min(range(len(rows)), key=lambda i: self._count(rows[i]))
        curve = [self.seconds(each) for each in rows]
        known = [each for each in curve if each is not None]
        if len(known) < len(curve):
            self.most = 0
            return len(rows)
        size = best_size(rows, _rising(known), is_full=is_full)
        self.most = size if is_full else self.most
        return size

    def _is_learning(self, rows: Sequence[int]) -> bool:
        return any(self.seconds(each) is None and self._count(each) < WINDOW for each in rows)

    def _count(self, rows: int) -> int:
        return self._times[rows].count if rows in self._times else 0


def best_size(rows: Sequence[int], seconds: Sequence[float], *, is_full: bool) -> int:
    """Choose how many images share a step, given how long steps of the first so many take.

    Where every slot is taken, as few as make the most of a second, as well as that is known. Else
    as many as cost those least who are there, and those who come meanwhile and wait for the step.

    Shapes: rows, seconds [images], both rising.
    """
    if is_full:
        costs = [taken / each for each, taken in zip(rows, seconds, strict=True)]
        least = min(costs)
        return 1 + next(i for i, cost in enumerate(costs) if cost <= least * (1 + MAX_ERROR))
    all_rows = rows[-1]
    costs = [
        taken * (1 + TO_COME * all_rows / each) for each, taken in zip(rows, seconds, strict=True)
    ]
    return 1 + costs.index(min(costs))


def _rising(seconds: Sequence[float]) -> list[float]:
    """More rows take no less time: what says otherwise is an error of measuring."""
    most, rising = 0.0, []
    for each in seconds:
        most = max(most, each)
        rising.append(most)
    return rising
