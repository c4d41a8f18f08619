"""Choose who takes the next step, within row limits: whose turn it is, and how many share it."""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate

from worker.diffusion.runner import Group
from worker.engine.sharing import Sharing
from worker.engine.slot import Slot

#: Groups whose step times are kept, the last used ones: clients may ask for any size.
MAX_GROUPS = 64
#: Weight of the newest step in the smoothed step time.
_SMOOTHING = 0.2

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
        return lambda slot: slot.rank(*paces[slot.group])

    def _sharing_of(self, slot: Slot) -> Sharing:
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


class RowCaps:
    """How many rows of each group fit in memory: halved when they do not, grown back slowly."""

    def __init__(self, max_rows: int, *, patience: int = 50) -> None:
        self.max_rows = max_rows
        self.patience = patience  #: good steps at the cap before one more row is tried
        self._caps: dict[Group, int] = {}
        self._good: dict[Group, int] = {}

    def rows(self, group: Group) -> int:
        """Rows that this group may use now."""
        return self._caps.get(group, self.max_rows)

    def halve(self, group: Group, rows: int) -> None:
        """Note that so many rows did not fit."""
        self._caps[group] = max(1, min(rows, self.rows(group)) // 2)
        self._good[group] = 0

    def grow(self, group: Group, rows: int) -> None:
        """Note that so many rows did fit."""
        cap = self._caps.get(group)
        if cap is None or rows + 1 < cap:
            return
        self._good[group] += 1
        if self._good[group] < self.patience:
            return
        self._good[group] = 0
        self._caps[group] = cap + 1
        if self._caps[group] >= self.max_rows:
            del self._caps[group], self._good[group]
