"""Predict when a model that no worker holds yet will serve. Pure: the caller brings the clock.

What the planner does is repeated: a worker without work changes its model at once, another one once
jobs have been patient and its turn is over, and models that have waited longer come first.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from core.boards.fleet import QueueDepth, Worker
from core.boards.plan import Plan
from core.model import Model
from core.placement import model_of
from scheduler.routing.model_turns import HELD, patience_s, turn_s

#: Until what has begun to wait is planned for, and until a worker has heard of the plan.
LAG_S = 1.0
#: Workers of one device type that are looked at.
MOST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReady:
    """Who will hold a model, and when."""

    worker: Worker  #: as it reported
    in_s: float  #: seconds until it serves the queue


@dataclass(slots=True, kw_only=True)
class _Change:
    """When a worker may be given another model."""

    free_s: float  #: seconds until it need not be left with its model, if no jobs wait for that
    idle_s: float  #: until none do, and it has nothing to do
    turn_over_s: float  #: until it need not be left with its model though jobs wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """What is known of the fleet and its queues at one moment."""

    models: Mapping[str, Model]
    fleet: Collection[Worker]
    plan: Plan
    depths: Sequence[QueueDepth] = ()
    now: float  #: epoch s
    #: by worker
    _changes: dict[str, tuple[Worker, _Change]] = field(default_factory=dict)

    def ready(self, model: str) -> ModelReady | None:
        """Foresee who will serve a model that nobody holds; None: nobody can."""
        given = [
            ModelReady(worker=worker, in_s=self._rest_s(worker, model))
            for worker in islice(self._given(model), MOST)
        ]
        if given:
            return min(given, key=lambda each: each.in_s)
        return self._after_others(model)

    def _given(self, model: str) -> Iterator[Worker]:
        """Find the workers that are to hold a model."""
        assignments = self.plan.assignments
        if model in assignments.values():
            yield from (w for w in self.fleet if assignments.get(w.name) == model)

    def _after_others(self, model: str) -> ModelReady | None:
        waits = self._waits()
        self._changes.update(
            {worker.name: (worker, self._change(worker)) for worker in self._some()}
        )
        before = [m for m, s in waits.items() if s >= waits.get(model, 0.0) and m != model]
        for other in sorted(before, key=lambda name: -waits[name]):
            if (found := self._next(other, waits[other])) is not None:
                worker, start_s = found
                begin_s, load_s = start_s + LAG_S, self._load_s(worker, other)
                change = _Change(
                    free_s=begin_s + HELD * load_s,
                    idle_s=begin_s + load_s + self._queue_s(worker, other),
                    turn_over_s=begin_s + turn_s(load_s),
                )
                self._changes[worker.name] = (worker, change)
        if (found := self._next(model, waits.get(model, 0.0))) is None:
            return None
        worker, start_s = found
        in_s = LAG_S + start_s + self._drain_s(worker, model) + self._load_s(worker, model)
        return ModelReady(worker=worker, in_s=in_s)

    def _some(self) -> Iterable[Worker]:
        """Choose of each device type all workers, or so many that one of them is free as soon."""
        of_type: dict[str, list[Worker]] = defaultdict(list)
        for worker in self.fleet:
            of_type[worker.device_type].append(worker)
        for workers in of_type.values():
            yield from workers[:: math.ceil(len(workers) / MOST)]

    def _waits(self) -> dict[str, float]:
        """Say for how long jobs have waited for each model that nobody is to hold."""
        held = set(self.plan.assignments.values())
        waits = {model_of(d.queue): d.oldest_s for d in self.depths if d.waiting}
        return {model: seconds for model, seconds in waits.items() if model not in held}

    def _next(self, model: str, waited_s: float) -> tuple[Worker, float] | None:
        """Find the worker that is given a model first, and in how many seconds."""
        found = []
        for worker, change in self._changes.values():
            if model not in self.plan.loads.get(worker.device_type, {}):
                continue
            due_s = patience_s(self._load_s(worker, model)) - waited_s
            by_turn_s = max(change.turn_over_s, due_s)
            found.append((min(by_turn_s, max(change.free_s, change.idle_s)), worker))
        if not found:
            return None
        start_s, worker = min(found, key=lambda each: (each[0], each[1].name))
        return worker, start_s

    def _change(self, worker: Worker) -> _Change:
        own = self.plan.assignments.get(worker.name, "")
        load_s, since = self._load_s(worker, own), self.plan.since.get(worker.name)
        given_s = -math.inf if since is None else since - self.now
        queue_s = self._queue_s(worker, own)
        return _Change(
            free_s=max(0.0, given_s + HELD * load_s),
            idle_s=queue_s + self._run_s(worker) / 2,  # on average
            turn_over_s=max(0.0, given_s + (turn_s(load_s) if queue_s else HELD * load_s)),
        )

    def _queue_s(self, worker: Worker, model: str) -> float:
        """Expect how long a worker makes what waits for a model, if no more comes."""
        waiting = sum(d.waiting for d in self.depths if model_of(d.queue) == model)
        cost = self.plan.costs.get(worker.device_type, {}).get(model)
        if model not in self.models:  # its worker has done with it
            return 0.0
        if not waiting or cost is None:
            return math.inf if waiting else 0.0
        usual = self.plan.usual.get(model)
        steps = usual.steps if usual is not None else self.models[model].default_steps
        images = waiting * (usual.images if usual is not None else 1.0)
        batches = max(1.0, images / worker.max_slots)
        return batches * steps * cost.step_s(min(images, worker.max_slots))

    def _rest_s(self, worker: Worker, model: str) -> float:
        """Say how much is left of a load that has begun."""
        if worker.loading is not None and worker.loading.is_loading(model):
            return worker.loading.rest_s(self._load_s(worker, model))
        load_s = self._load_s(worker, model) + self._drain_s(worker, model)
        return max(0.0, self.plan.since.get(worker.name, self.now) + load_s - self.now)

    def _load_s(self, worker: Worker, model: str) -> float:
        known = self.plan.loads.get(worker.device_type, {}).get(model)
        if known is None and model in self.models:
            return self.models[model].load_s
        return known or 0.0  # of a model that is served no more

    def _drain_s(self, worker: Worker, model: str) -> float:
        """Expect how long images are still made before there is room for a model."""
        held = [name for name in worker.models if name in self.models]
        needed_gib = sum(self._size_gib(worker, name) for name in (*held, model))
        return 0.0 if needed_gib <= worker.memory_gib else self._run_s(worker)

    def _size_gib(self, worker: Worker, model: str) -> float:
        return worker.needs_gib.get(model, self.models[model].size_gib)

    def _run_s(self, worker: Worker) -> float:
        """Expect how long a worker makes images of those it has, had they all just begun."""
        held = [self.models[name] for name in worker.models if name in self.models]
        if not worker.running:
            return 0.0
        costs = self.plan.costs.get(worker.device_type, {})
        return max(
            (
                costs[each.name].step_s(worker.running) * each.default_steps
                for each in held
                if each.name in costs
            ),
            default=0.0,
        )
