"""Benchmark recovery of quality after prompt drift, by retraining (Argus §4.1, Fig. 18).

A classifier that knows easy prompts only serves easy prompts, then hard ones. The service's own
parts watch its scores, raise the alarm, retrain and go over, in virtual time; images are made by
`python -m zoo.quality.shift`. Each of them is scored here, where the service samples a share.

Judged by hard prompts that nobody learned from, with the same fleet and demand, by the checker.
The bar is a classifier trained on all images of the very prompts that came after the shift, every
level of each. A plan that expects less of the slow levels uses less of the fleet's time, and that
is lost quality too; what is left at equal loads, those of the bar's plan, is told beside it.

    python -m bench.drift
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory

import typer

from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from bench.parts.shifting import Images, Outcome, Service, outcome_of, quality_at
from catalog.models import read_models
from classifier.encoder.encoder import SentenceEncoder
from classifier.encoder.installed import open_encoder
from classifier.files import ClassifierFiles
from classifier.labels import read_labels
from classifier.score_curve import read_worth
from classifier.trained import TrainedClassifier
from classifier.training.data import TrainingData
from classifier.training.retrain import Shipped
from classifier.training.train import train
from core.log import configure
from core.settings import get_settings
from scheduler.approximate_cache.embed import Remembering
from scheduler.metrics import Metrics
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import read_measured
from scheduler.service.drift import DriftDetector
from scheduler.service.drift_monitor import DriftMonitor
from storage.fakes import (
    MemoryClassifiers,
    MemoryLeadership,
    MemoryObjects,
    MemoryScores,
    MemoryStore,
)
from tasks.jobs.retrain import Retraining
from zoo.quality.shift import BEFORE, MODELS, OUT, SCORED, TRUTH
from zoo.scorer.train import SCORER

TAUGHT = 80  #: easy prompts that the first classifier learned from, every level of each
FOLDS = 4  #: of the hard prompts: one judges and is never learned from, the others come
MAX_DELAY = 400  #: scored images: two windows
ROUNDS = 4  #: times that each prompt of the stream comes
LOOK = 25  #: prompts between two looks of the scheduler at the scores


@dataclass(slots=True, kw_only=True)
class Story:
    """What happened to a service."""

    last: TrainedClassifier  #: in force at the end
    alarms: list[int] = field(default_factory=list)  #: images scored since the shift, or before it
    false_alarms: int = 0  #: before the shift
    retrainings: int = 0
    changes: int = 0  #: classifiers that came into force
    retrain_s: list[float] = field(default_factory=list)  #: CPU seconds each


class Live:
    """A service that is watched, from its first classifier on."""

    def __init__(
        self, profile: Profile, folder: Path, shipped: Shipped, encoder: SentenceEncoder, work: Path
    ) -> None:
        first = TrainedClassifier(folder, encoder)
        files = ClassifierFiles(MemoryObjects(), folder=work, shipped=folder)
        self.story = Story(last=first)
        self.service = Service(profile, first)
        self._scores, self._board = MemoryScores(), MemoryClassifiers()
        self._drift_monitor = DriftMonitor(
            first,
            DriftDetector(),
            scores=self._scores,
            board=self._board,
            files=files,
            encoder=encoder,
            adopt=self._adopt,
            leads=lambda: True,
            metrics=Metrics(),
        )
        self._retraining = Retraining(
            self._board,
            self._scores,
            lead=MemoryLeadership(MemoryStore(), "retrain", "bench", 3600.0),
            data=lambda: TrainingData(encoder, files, shipped),
        )

    async def serve(self, images: Images, *, is_shifted: bool) -> None:
        """Serve prompts in turn; the scheduler looks at the scores every now and then."""
        await self._drift_monitor.round()
        for number, score in enumerate(self.service.serve(images), 1):
            await self._scores.add([score])
            if number % LOOK == 0:
                await self._look(number if is_shifted else None)

    async def _look(self, since_shift: int | None) -> None:
        await self._drift_monitor.round()
        cause = await self._board.wanted()
        if cause is None:
            return
        if "fell" in cause and since_shift is None:
            self.story.false_alarms += 1
        elif "fell" in cause and since_shift is not None:
            self.story.alarms.append(since_shift)
        began = time.process_time()
        await self._retraining.run()
        self.story.retrain_s.append(time.process_time() - began)
        self.story.retrainings += 1
        await self._drift_monitor.round()

    def _adopt(self, classifier: TrainedClassifier) -> None:
        self.service.adopt(classifier)
        self.story.last = classifier
        self.story.changes += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One telling of the story, with other hard prompts to judge by."""

    story: Story
    before: Outcome  #: easy prompts, before the shift
    first: Outcome
    last: Outcome
    oracle: Outcome
    left_alike: float  #: quality that the oracle has more of than the last, at equal loads

    @property
    def left(self) -> float:
        """Tell how much better the oracle serves."""
        return self.oracle.quality - self.last.quality


def told(profile: Profile, images: Images, encoder: SentenceEncoder, work: Path, fold: int) -> Fold:
    """Let the mix shift, and compare classifiers by what hard prompts get."""
    easy, hard = sum(BEFORE.values()), range(sum(BEFORE.values()), len(images.prompts))
    known = images.chosen(range(TAUGHT)).truth
    judges = images.chosen([row for row in hard if row % FOLDS == fold])
    after = [row for row in hard if row % FOLDS != fold]
    first = train(known, encoder, work / "first")
    live = Live(profile, first, Shipped(taught=known), encoder, work)
    before = [*range(TAUGHT, easy)]
    asyncio.run(live.serve(images.chosen(before * ROUNDS), is_shifted=False))
    asyncio.run(live.serve(images.chosen(after * ROUNDS), is_shifted=True))
    taught = train(images.chosen(after).truth, encoder, work / "oracle")
    bar, last = TrainedClassifier(taught, encoder), live.story.last
    oracle = outcome_of(profile, bar, judges)
    at_its_loads = partial(quality_at, oracle.loads, images=judges)
    return Fold(
        story=live.story,
        before=outcome_of(profile, TrainedClassifier(first, encoder), images.chosen(before)),
        first=outcome_of(profile, TrainedClassifier(first, encoder), judges),
        last=outcome_of(profile, last, judges),
        oracle=oracle,
        left_alike=at_its_loads(bar) - at_its_loads(last),
    )


def figures_of(folds: Sequence[Fold]) -> dict[str, Figure]:
    """Average over the folds, and name what was found."""
    stories = [fold.story for fold in folds]
    delays = [min(story.alarms, default=math.inf) for story in stories]
    changes = min(story.changes for story in stories)
    easy = fmean(fold.before.quality for fold in folds)
    figures = {
        "false alarms before the shift": at_most(sum(s.false_alarms for s in stories), 0, ""),
        "scored images from the shift to the alarm, most": at_most(max(delays), MAX_DELAY, ""),
        "retrainings, most": plain(max(story.retrainings for story in stories), ""),
        "classifiers that came into force, least": at_least(changes, 1, ""),
        "one retraining, CPU": plain(
            max((s for each in stories for s in each.retrain_s), default=0.0), "s"
        ),
    }
    figures["easy prompts, first classifier"] = plain(100 * easy, "points")
    for name, outcomes in (
        ("first classifier", [fold.first for fold in folds]),
        ("retrained", [fold.last for fold in folds]),
        ("trained on the new mix", [fold.oracle for fold in folds]),
    ):
        quality, seconds = fmean(o.quality for o in outcomes), fmean(o.seconds for o in outcomes)
        figures[f"hard prompts, {name}"] = plain(100 * quality, "points")
        figures[f"time of a prompt, {name}"] = plain(seconds, "s")
    left, error = averaged([fold.left for fold in folds])
    alike, error_alike = averaged([fold.left_alike for fold in folds])
    name = "left to the one trained on the new mix"
    return figures | {
        name: at_most(100 * left, 2.0, "points"),
        f"{name}, standard error": plain(100 * error, "points"),
        f"{name}, at equal loads": plain(100 * alike, "points"),
        f"{name}, at equal loads, standard error": plain(100 * error_alike, "points"),
    }


def averaged(values: Sequence[float]) -> tuple[float, float]:
    """Average over folds; also give the standard error of that, infinite for one fold."""
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return fmean(values), error


def main(
    quick: bool = typer.Option(False, help="One fold."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
) -> None:
    """Let the mix of prompts shift. Example: `python -m bench.drift`."""
    configure("error", is_json=False)
    every = read_models(Path("zoo/weights"))
    profile = Profile(
        models={name: every[name] for name in MODELS},
        measured=read_measured(Path("zoo/profile.json")),
    )
    images = Images(
        truth=read_labels(OUT / TRUTH), scored=read_labels(OUT / SCORED), worth=read_worth(SCORER)
    )
    encoder = Remembering(open_encoder(get_settings()))
    folds = []
    for fold in range(1 if quick else FOLDS):
        with TemporaryDirectory() as work:
            folds.append(told(profile, images, encoder, Path(work), fold))
    raise SystemExit(finish("drift", figures_of(folds), where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
