"""Choose who takes the next step, within row limits: whose turn it is, and how many share it. Pure.

Where a step of eight rows takes eight times one, sharing all slots makes everyone late: eight equal
jobs end at 8 T together where one after the other would end at 4.5 T on average. So no more share a
step than it pays for, by how long steps of so many rows have taken.
"""

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import accumulate
from statistics import median

from worker.diffusion.runner import Group
from worker.engine.row_caps import RowCaps
from worker.engine.slot import Slot
from worker.engine.stats import DENOISING, Activity

#: Groups whose step times are kept, the last used ones: clients may ask for any size.
MAX_GROUPS = 64
#: Weight of the newest step in the smoothed step time.
_SMOOTHING = 0.2
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

#: A job passes another that came before it by less than so many times what it saves in waiting.
PATIENCE = 20.0

Rank = Callable[[Slot], tuple[float, str, int]]


def fitting(ready: Sequence[Slot], rank: Rank, max_rows: Callable[[Group], int]) -> list[Slot]:
    """Choose the first slot and its look-alikes, as many as fit.

    They share model, latent shape and text length, and need not share a timestep. The first is
    taken even if it alone has more than `max_rows`. Only finitely many jobs are ever ahead of one,
    by when they are due or by when they came: nobody starves.
    """
    first, *others = sorted(ready, key=rank)
    chosen, rows, most = [first], first.rows, max_rows(first.group)
    for slot in others:
        if slot.group == first.group and rows + slot.rows <= most:
            chosen.append(slot)
            rows += slot.rows
    return chosen


class NextBatch:
    """Chooses the slots of the next step, and learns from how long it took."""

    def __init__(self, max_rows: int, fits: Callable[[Slot], int] | None = None) -> None:
        """Prepare; `fits` says how many images like one fit in memory at a time."""
        self.caps = RowCaps(max_rows)
        self._fits = fits
        self.step_s: dict[str, float] = {}  #: of each model, smoothed
        self.step_images: dict[str, float] = {}  #: that shared it, smoothed alike
        self._sharing: OrderedDict[Group, Sharing] = OrderedDict()

    def choose(self, ready: Sequence[Slot], *, is_full: bool) -> list[Slot]:
        """Choose of these, at least one.

        Args:
            is_full: every slot of the engine is taken.
        """
        fits = list(ready)
        if len(fits) > 1:
            fits = fitting(ready, self._rank(ready), self.caps.rows)
            fits = fits[: max(1, self._fits(fits[0]))] if self._fits else fits
        if not all(_is_whole(slot) for slot in fits):
            return fits
        rows = list(accumulate(slot.rows for slot in fits))
        return fits[: self._sharing_of(fits[0]).size(rows, is_full=is_full)]

    def note(self, batch: Sequence[Slot], seconds: float, *, is_whole: bool) -> None:
        """Note how long a step of a batch took; without faults it says what so many rows take."""
        model, images = batch[0].ticket.runner.model.name, float(len(batch))
        for known, seen in ((self.step_s, seconds), (self.step_images, images)):
            smoothed = known.get(model, seen)
            known[model] = smoothed + _SMOOTHING * (seen - smoothed)
        if is_whole and all(_is_whole(slot) for slot in batch):
            self._sharing_of(batch[0]).note(sum(slot.rows for slot in batch), seconds)

    def slowest_s(self, running: Sequence[Slot]) -> float:
        """Say how long the longest of their next steps takes (s), as far as is known."""
        models = {slot.ticket.runner.model.name for slot in running}
        return max((self.step_s.get(model, 0.0) for model in models), default=0.0)

    def left_s(self, running: Sequence[Slot], among: Sequence[Slot]) -> dict[str, float]:
        """Guess how long their jobs take (s), if all of those here take turns."""
        images, left = Counter(slot.group for slot in among), dict[str, float]()
        for slot in running:
            model, job_id = slot.ticket.runner.model.name, slot.ticket.job.id
            if model in self.step_s:
                sharing = self.step_images.get(model, math.inf)
                turns = len(images) * max(1.0, images[slot.group] / sharing)
                steps = slot.sample.num_steps - slot.step
                left[job_id] = max(left.get(job_id, 0.0), turns * steps * self.step_s[model])
        return left

    def most_sharing(self, model: str) -> int:
        """Count the images of a model that share a step while every slot is taken.

        0 means as many as there are, and of groups the last one counts.
        """
        groups = reversed(tuple(self._sharing.items()))  # a copy: any thread may ask
        return next((sharing.most for key, sharing in groups if key[0] == model), 0)

    def forget(self, model: str) -> None:
        """Forget how long the steps of a model take."""
        for known in (self.step_s, self.step_images):
            known.pop(model, None)
        for key in [key for key in self._sharing if key[0] == model]:
            del self._sharing[key]

    def _rank(self, ready: Sequence[Slot]) -> Rank:
        """Rank by when jobs came and what is left of them, or else by when they are due."""
        paces: dict[Group, tuple[float, float]] = {}
        for group in {slot.group for slot in ready}:
            alike = [slot for slot in ready if slot.group == group]
            sharing = self._sharing_of(alike[0])
            one_s = sharing.seconds(min(slot.rows for slot in alike))
            all_s = sharing.seconds(sum(slot.rows for slot in alike))
            if one_s is None or all_s is None:
                return lambda slot: slot.order
            paces[group] = (one_s, all_s)
        return lambda slot: rank(slot, *paces[slot.group])

    def _sharing_of(self, slot: Slot) -> "Sharing":
        key = (slot.ticket.runner.model.name, *slot.sample.group)
        sharing = self._sharing.get(key)
        if sharing is None:
            sharing = self._sharing[key] = Sharing()
            if len(self._sharing) > MAX_GROUPS:
                self._sharing.popitem(last=False)
        self._sharing.move_to_end(key)
        return sharing


def _is_whole(slot: Slot) -> bool:
    """Tell whether each of its steps computes its whole image, and waits for nobody."""
    is_steered = bool(slot.ticket.job.request.controls)
    return slot.takes_whole_steps and slot.sample.masked == 1.0 and not is_steered


def rank(slot: Slot, step_s: float, all_s: float) -> tuple[float, str, int]:
    """Rank an image where not all share a step: by when it came, later the more is left of it.

    A deadline lets it begin in time even if all shared every step.

    Args:
        step_s: of a step of one image (s).
        all_s: of one that all share (s).
    """
    job = slot.ticket.job
    left = slot.ticket.share_left * slot.whole_steps
    rank = job.waits_since + PATIENCE * left * step_s
    if job.deadline_at is not None:
        rank = min(rank, job.deadline_at - left * all_s)
    return (rank, job.id, slot.index)


def denoising(batch: Sequence[Slot]) -> Activity:
    """Describe what is done to a batch: it takes a step."""
    request = batch[0].request
    return Activity(
        doing=DENOISING,
        model=batch[0].ticket.runner.model,
        shape=batch[0].sample.group,
        rows=sum(slot.rows for slot in batch),
        pixels=request.width * request.height,
        jobs=tuple(dict.fromkeys(slot.ticket.job.id for slot in batch)),
        is_steered=any(slot.ticket.job.request.controls for slot in batch),
    )


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
