"""Settling: workers that must keep the model a plan just gave them. Pure."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from core.boards.fleet import QueueDepth, Worker
from core.placement import model_of
from scheduler.allocation.assign import can_hold
from scheduler.routing.model_turns import HELD, turn_s

#: Times that loading takes, for which a worker that is loading still is left to it.
LOADING = 10.0
NOTHING = ("", -math.inf)  #: given to a worker


class SettlingTimes:
    """Remembers what workers were given, so that loads are not undone at once."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[str, float]] = {}  # worker -> model, since when
        self._left: dict[str, float] = {}  # model -> when it lost its last worker
        self._old: set[str] = set()  # workers that are left to it only while they load

    @property
    def since(self) -> dict[str, float]:
        """Say when each worker was given its model, where that is known."""
        return {name: at for name, (_, at) in self._given.items() if math.isfinite(at)}

    def left(self, now: float) -> dict[str, float]:
        """Say how many seconds ago models lost their last worker, where that is known."""
        return {model: now - at for model, at in self._left.items()}

    def note(self, workers: Sequence[Worker], assignments: Mapping[str, str], now: float) -> None:
        """Note what a plan gives to each worker; one that holds its model already may change."""
        given: dict[str, tuple[str, float]] = {}
        self._old.clear()
        for worker in workers:
            model = assignments.get(worker.name)
            if model is None:
                continue
            since = float("-inf") if model in worker.models else now
            before = self._given.get(worker.name)
            given[worker.name] = before if before and before[0] == model else (model, since)
        held = {model for model, _ in given.values()}
        lost = {model for model, _ in self._given.values()} - held
        before_that = {model: at for model, at in self._left.items() if model not in held}
        self._left = before_that | dict.fromkeys(sorted(lost), now)
        self._given = given

    def settling(
        self,
        workers: Sequence[Worker],
        load_s: Callable[[str, str], float],
        now: float,
        depths: Sequence[QueueDepth] = (),
    ) -> dict[str, str]:
        """List workers that must be left with the model they were given.

        Args:
            load_s: seconds to load a model on a device type.
            depths: of queues: who alone has a model that jobs wait for keeps it for a turn.
        """
        kept: dict[str, str] = {}
        known_s: dict[tuple[str, str], float] = {}  #: device type, model -> seconds to load it
        longest_s: dict[tuple[str, str], float] = {}  #: likewise, that anybody is left with it
        lonely = self._lonely({model_of(depth.queue) for depth in depths if depth.waiting})
        old = self._old
        for worker in workers:
            if worker.name in old and worker.loading is None:
                continue
            model, at = self._given.get(worker.name, NOTHING)
            if at == -math.inf:  # it was given none, or one that it held
                continue
            if not can_hold(worker, model):  # it failed, or its files have gone
                continue
            kind = (worker.device_type, model)
            one_load_s = known_s.get(kind)
            if one_load_s is None:
                one_load_s = known_s[kind] = load_s(model, worker.device_type)
                longest_s[kind] = max(LOADING * one_load_s, turn_s(one_load_s))
            if now - at >= longest_s[kind] and worker.loading is None:
                old.add(worker.name)  # whatever it does
                continue
            if self._is_kept(worker, model, one_load_s, now - at, is_lonely=model in lonely):
                kept[worker.name] = model
        return kept

    def _lonely(self, waiting: Collection[str]) -> set[str]:
        """Name the models that jobs wait for and one worker was given."""
        holders = Counter([model for model, _ in self._given.values()])
        return {model for model in waiting if holders[model] == 1}

    def _is_kept(
        self, worker: Worker, model: str, load_s: float, since_s: float, *, is_lonely: bool
    ) -> bool:
        keep_s = load_s * (HELD if model in worker.models else LOADING)
        if is_lonely:
            keep_s = max(keep_s, turn_s(load_s))
        if since_s < keep_s:
            return True
        return worker.loading is not None and worker.loading.is_loading(model)
