"""Service simulation in virtual time over a shifting stream of prompts.

Its own parts classify, plan, place, watch, and retrain; only the image is looked up: what the
checker says of it is the truth, what the scorer says is all that the service knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from classifier.labels import Labels
from classifier.score_curve import Worth
from classifier.trained import TrainedClassifier
from core.application import DEFAULT
from core.boards.demand import Stream
from core.boards.fleet import Worker
from core.boards.plan import Plan
from core.boards.score import Score
from core.levels.level import Level
from core.placement import Placement, PlacementQuery
from scheduler.allocation.allocate import allocate
from scheduler.demand.demand import shares
from scheduler.placement.placer import Placer
from scheduler.planning.decide import decide
from scheduler.planning.snapshot import Snapshot
from scheduler.profile.profile import Profile
from scheduler.routing.classify import InForce
from zoo.quality.routed import rows_of

WORKERS = 10
RATE = 16.0  #: prompts a second: the fleet is busy, and some have to take the fast level
PLAN_EVERY = 50  #: prompts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Images:
    """One image of every prompt at every level, judged twice."""

    truth: Labels  #: by the checker
    scored: Labels  #: by the scorer
    worth: Worth  #: of the scorer's scores

    def chosen(self, rows: Sequence[int]) -> "Images":
        """Keep some prompts."""
        return replace(self, truth=self.truth.chosen(rows), scored=self.scored.chosen(rows))

    @property
    def prompts(self) -> tuple[str, ...]:
        return self.truth.prompts


class Service:
    """A fleet, and the classifier that is in force."""

    def __init__(self, profile: Profile, classifier: TrainedClassifier) -> None:
        self._measured = profile
        self._in_force = InForce(classifier)
        self.placer = Placer(profile.models, self._in_force)
        self._models = tuple(sorted(profile.models))
        self._workers = [
            Worker(name=f"w{i}", device_type="cpu", models=(), queues=(), memory_gib=4.0)
            for i in range(WORKERS)
        ]
        self._now = 0.0
        self.plan()

    def adopt(self, classifier: TrainedClassifier) -> None:
        """Put another classifier in force, and plan with its classes."""
        self._in_force.classifier = classifier
        self.plan()

    def plan(self) -> None:
        """Divide the fleet for the classes of the last prompts."""
        classifier = self._in_force.classifier
        assert isinstance(classifier, TrainedClassifier)
        profile = self._measured.with_classes(classifier.card.classes)
        snapshot = Snapshot(
            workers=self._workers,
            rates={Stream(application=DEFAULT, models=self._models): RATE},
            affinity={DEFAULT: shares(self.placer.arrivals.classes(DEFAULT))},
            previous=self.placer.plan.assignments,
            classes=classifier.classes,
        )
        found = decide(snapshot, profile, allocate)
        self.placer.follow(
            Plan(
                version=self.placer.plan.version + 1,
                fence=1,
                made_at=self._now,
                policy="atelier",
                assignments=found.assignments,
                pasm=found.pasm,
                levels=found.levels,
            )
        )

    def shares(self, affinity: str) -> Mapping[str, float]:
        """Say how the prompts of a class are shared among levels now, as the router does."""
        plan = self.placer.plan
        rows = {(row.affinity, row.models): row.shares for row in plan.pasm if not row.is_full}
        for models in (self._models, ()):
            if shares := rows.get((affinity, models)):
                return shares
        whole = sum(plan.levels.values())
        return {level: rate / whole for level, rate in plan.levels.items()}

    def place(self, prompt: str) -> str:
        """Place one prompt; give its level."""
        self._now += 1 / RATE
        query = PlacementQuery(prompt=prompt, models=self._models)
        (placed,) = self.placer.place([query], self._now)
        assert isinstance(placed, Placement)
        return placed.level

    def serve(self, images: Images) -> Iterator[Score]:
        """Make an image of each prompt in turn, and score it."""
        for row, prompt in enumerate(images.prompts):
            if row % PLAN_EVERY == 0:
                self.plan()
            level = self.place(prompt)
            column = images.scored.levels.index(level)
            yield Score(
                job=str(row),
                prompt=prompt,
                level=level,
                quality=float(images.scored.quality[row, column, 0]),
                variance=images.worth.variance(level),
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What prompts get, expected over the plan's rows: no luck of who comes when."""

    quality: float  #: mean, by the checker
    seconds: float  #: of a worker, a prompt
    loads: NDArray[np.float64]  #: [L], share of the prompts that each level makes


def outcome_of(profile: Profile, classifier: TrainedClassifier, images: Images) -> Outcome:
    """Serve prompts that a classifier never saw, by a plan that knows their classes."""
    service, levels = Service(profile, classifier), images.truth.levels
    for _ in service.serve(images):
        continue  # so that the plan learns how many are of each class
    service.plan()
    rows = [service.shares(name) for name in classifier.classify(images.prompts)]
    shares = np.array([[row.get(level, 0.0) for level in levels] for row in rows])
    loads = shares.mean(axis=0)
    return Outcome(
        quality=float((shares * images.truth.quality[:, :, 0]).sum(axis=1).mean()),
        seconds=float(loads @ [profile.tau_s(Level.read(level), "cpu") for level in levels]),
        loads=loads,
    )


def quality_at(loads: NDArray[np.float64], classifier: TrainedClassifier, images: Images) -> float:
    """Serve prompts with loads of the levels that somebody else chose; the classes share them.

    Shapes: loads [L].
    """
    known, levels = classifier.card.classes.quality, images.truth.levels
    table = np.array([[known[name][level] for level in levels] for name in classifier.classes])
    member = np.array([classifier.classes.index(x) for x in classifier.classify(images.prompts)])
    rows = rows_of(np.bincount(member, minlength=len(table)) / len(member), loads, table)
    return float((rows[member] * images.truth.quality[:, :, 0]).sum(axis=1).mean())
