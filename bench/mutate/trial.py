"""Try mutants, several at a time, each against the tests that are likeliest to notice it first."""

import contextlib
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.mutate.areas import Subject
from bench.mutate.forked import POLL_S, ForkedTests, Limits, Run, copy_tree
from bench.mutate.mutant import Mutant
from bench.mutate.order import Observed, Observer, Order, read_observed


class TestsFail(Exception):
    """Tests fail though nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The tests of one file, to be run."""

    subject: Subject
    mutant: Mutant | None = None  #: None: the file as it is
    order: Mapping[str, Observed] | None = None  #: None: as they come, and they are observed
    limits: Limits = field(default_factory=Limits)


class Lane:
    """Runs one trial after another in a copy of the repository of its own."""

    def __init__(self, root: Path, folder: Path) -> None:
        copy_tree(root, folder)
        self.tests = ForkedTests(folder)
        self.observed = folder / "observed.json"
        self.trial: Trial | None = None
        self._change = contextlib.ExitStack()

    def start(self, trial: Trial) -> None:
        self.trial = trial
        subject, mutant = trial.subject, trial.mutant
        if mutant is not None:
            self._change.enter_context(self.tests.changed(mutant.path, mutant.source))
        if trial.order is not None:
            plugin: object = Order(trial.order, mutant.scope if mutant is not None else "")
        else:
            plugin = Observer(self.tests.root / subject.path, self.observed)
        only = ("-k", subject.only) if subject.only else ()
        self.tests.start([*subject.tests, *only], trial.limits, plugin)

    def ended(self) -> tuple[Trial, Run] | None:
        """Give the trial and what became of it, once it has ended."""
        if self.trial is None or (run := self.tests.ended()) is None:
            return None
        self._change.close()
        trial, self.trial = self.trial, None
        return trial, run


def tried(
    mutants: Sequence[tuple[Subject, Mutant]], root: Path, processes: int
) -> Iterator[tuple[Mutant, Run]]:
    """Run the tests of each mutant, after those of the files as they are.

    Raises: TestsFail where these fail.
    """
    subjects = {subject.path: subject for subject, _ in mutants}
    with tempfile.TemporaryDirectory(prefix="atelier-mutants-") as folder:
        lanes = [Lane(root, Path(folder, str(number))) for number in range(processes)]
        lanes[0].tests.prepare(sorted({t for each in subjects.values() for t in each.tests}))
        plain = _plain(subjects.values(), lanes)
        trials = [
            Trial(
                subject=subject,
                mutant=mutant,
                order=plain[mutant.path].order,
                limits=plain[mutant.path].limits,
            )
            for subject, mutant in mutants
        ]
        for trial, run, _ in _in_parallel(trials, lanes):
            assert trial.mutant is not None
            yield trial.mutant, run


def _plain(subjects: Iterable[Subject], lanes: Sequence[Lane]) -> dict[str, Trial]:
    """Run the tests of each file as it is: as they come, then in an order of ours."""
    first = [Trial(subject=subject) for subject in subjects]
    ordered = [
        Trial(subject=trial.subject, order=read_observed(lane.observed))
        for trial, run, lane in _in_parallel(first, lanes)
        if _passed(trial, run, lane)
    ]
    return {
        trial.subject.path: Trial(subject=trial.subject, order=trial.order, limits=run.limits())
        for trial, run, lane in _in_parallel(ordered, lanes)
        if _passed(trial, run, lane)
    }


def _passed(trial: Trial, run: Run, lane: Lane) -> bool:
    if not run.has_passed:
        log = lane.tests.log.read_text()[-2000:]
        raise TestsFail(f"tests of {trial.subject.path} fail as it is:\n{log}")
    return True


def _in_parallel(
    trials: Iterable[Trial], lanes: Sequence[Lane]
) -> Iterator[tuple[Trial, Run, Lane]]:
    """Run trials, one in each lane at a time; give them as they end."""
    waiting = deque(trials)
    while waiting or any(lane.trial for lane in lanes):
        for lane in lanes:
            if (ended := lane.ended()) is not None:
                yield *ended, lane
            if lane.trial is None and waiting:
                lane.start(waiting.popleft())
        time.sleep(POLL_S)
