"""Does quality come back after the mix of prompts has changed? Argus §4.1, Fig. 18.

A classifier that knows easy prompts only serves easy prompts, then hard ones. The service's own
parts watch its scores, raise the alarm, retrain and go over, in virtual time; images are made by
`python -m zoo.quality.shift`. Each of them is scored here, where the service samples a share.

Judged by hard prompts that nobody learned from, at equal loads, by the checker. The bar is a
classifier trained on all images of the very prompts that came after the shift, every level of each.

    python -m bench.drift
"""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from bench.report import Figure, at_least, at_most, finish, machine, plain
from bench.shifting import Images, Outcome, Service, outcome_of
from core.settings import get_settings
from scheduler.drift import DriftDetector
from scheduler.embed import Remembering
from scheduler.measured import read_measured
from scheduler.metrics import Metrics
from scheduler.profile import Profile
from scheduler.vigil import Vigil
from storage.memory import (
    MemoryClassifiers,
    MemoryLeadership,
    MemoryObjects,
    MemoryScores,
    MemoryStore,
)
from storage.models import read_models
from tasks.retrain import Retraining
from worker.affinity.encoder import Encoder
from worker.affinity.files import ClassifierFiles
from worker.affinity.installed import open_encoder
from worker.affinity.labels import read_labels
from worker.affinity.retrain import Shipped
from worker.affinity.school import School
from worker.affinity.train import train
from worker.affinity.trained import TrainedClassifier
from zoo.quality.shift import AFTER, BEFORE, MODELS, OUT, SCORED, TRUTH

TAUGHT = 80  #: easy prompts that the first classifier learned from, every level of each
JUDGES = 70  #: hard prompts that no classifier learns from
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
        self, profile: Profile, folder: Path, shipped: Shipped, encoder: Encoder, work: Path
    ) -> None:
        first = TrainedClassifier(folder, encoder)
        files = ClassifierFiles(MemoryObjects(), folder=work, shipped=folder)
        self.story = Story(last=first)
        self.service = Service(profile, first)
        self._scores, self._board = MemoryScores(), MemoryClassifiers()
        self._vigil = Vigil(
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
            files=files,
            school=lambda: School(encoder, files, shipped),
        )

    async def serve(self, images: Images, *, is_shifted: bool) -> None:
        """Serve prompts in turn; the scheduler looks at the scores every now and then."""
        await self._vigil.round()
        for number, score in enumerate(self.service.serve(images), 1):
            await self._scores.add([score])
            if number % LOOK == 0:
                await self._look(number if is_shifted else None)

    async def _look(self, since_shift: int | None) -> None:
        await self._vigil.round()
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
        await self._vigil.round()

    def _adopt(self, classifier: TrainedClassifier) -> None:
        self.service.adopt(classifier)
        self.story.last = classifier
        self.story.changes += 1


def measured(profile: Profile, images: Images, encoder: Encoder, work: Path) -> dict[str, Figure]:
    """Let the mix shift, and compare classifiers by what hard prompts get."""
    easy, hard = sum(BEFORE.values()), sum(AFTER.values())
    taught = images.chosen(range(TAUGHT)).truth
    before = images.chosen([*range(TAUGHT, easy)] * ROUNDS)
    after = images.chosen([*range(easy, easy + hard - JUDGES)] * ROUNDS)
    judges = images.chosen(range(easy + hard - JUDGES, easy + hard))
    first = train(taught, encoder, work / "first")
    live = Live(profile, first, Shipped(taught=taught), encoder, work)
    asyncio.run(live.serve(before, is_shifted=False))
    asyncio.run(live.serve(after, is_shifted=True))
    oracle = TrainedClassifier(train(after.truth, encoder, work / "oracle"), encoder)
    return figures_of(
        live.story,
        [
            outcome_of(profile, each, judges)
            for each in (TrainedClassifier(first, encoder), live.story.last, oracle)
        ],
    )


def figures_of(story: Story, outcomes: list[Outcome]) -> dict[str, Figure]:
    """Name what was found."""
    first, last, oracle = outcomes
    return {
        "false alarms before the shift": at_most(story.false_alarms, 0, ""),
        "alarms": at_least(len(story.alarms), 1, ""),
        "scored images from the shift to the alarm": plain(min(story.alarms, default=-1), ""),
        "retrainings": plain(story.retrainings, ""),
        "classifiers that came into force": at_least(story.changes, 1, ""),
        "one retraining, CPU": plain(max(story.retrain_s, default=0.0), "s"),
        "hard prompts, first classifier": plain(100 * first.quality, "points"),
        "hard prompts, after retraining": plain(100 * last.quality, "points"),
        "hard prompts, trained on them": plain(100 * oracle.quality, "points"),
        "left to the one trained on them": at_most(
            100 * (oracle.quality - last.quality), 2.0, "points"
        ),
        "time a prompt, first": plain(first.seconds, "s"),
        "time a prompt, after retraining": plain(last.seconds, "s"),
        "time a prompt, trained on them": plain(oracle.seconds, "s"),
    }


def main(
    quick: bool = typer.Option(False, help="The same: it takes seconds."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
) -> None:
    """Let the mix of prompts shift. Example: `python -m bench.drift`."""
    every = read_models(Path("zoo/weights"))
    profile = Profile(
        models={name: every[name] for name in MODELS},
        measured=read_measured(Path("zoo/profile.json")),
    )
    images = Images(truth=read_labels(OUT / TRUTH), scored=read_labels(OUT / SCORED))
    encoder = Remembering(open_encoder(get_settings()))
    with TemporaryDirectory() as work:
        figures = measured(profile, images, encoder, Path(work))
    raise SystemExit(finish("drift", figures, where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
