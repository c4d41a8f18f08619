"""Try mutants, several at a time, each against the tests that are likeliest to notice it first."""

import contextlib
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.mutate.areas import Subject
from bench.mutate.forked import POLL_S, ForkedTests, Limits, Run, copy_tree
from bench.mutate.mutant import Mutant
from bench.mutate.order import Observed, Observer, Order, read_observed
from bench.mutate.session import NOT_IN_PLACE, Session, is_function

TRIES = 3  #: of tests that shall pass


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
        self._subject: Subject | None = None  #: of the session
        self._session: Session | None = None  #: None: its tests do not pass in one
        self._is_in_place = False
        self._ended: Callable[[], Run | None] = lambda: None

    def start(self, trial: Trial) -> None:
        self.trial = trial
        mutant, order = trial.mutant, trial.order
        session = None
        if mutant is not None and order is not None and self._may_change_in_place(mutant):
            session = self._session_of(trial.subject, order, trial.limits)
        if mutant is None or order is None or session is None:
            self._start_anew(trial)
            return
        session.start(Order(order, mutant.scope), mutant.source)
        self._ended, self._is_in_place = session.ended, True

    def ended(self) -> tuple[Trial, Run] | None:
        """Give the trial and what became of it, once it has ended."""
        if self.trial is None or (run := self._ended()) is None:
            return None
        self._change.close()
        if self._is_in_place and (run.has_passed or run.status == NOT_IN_PLACE):
            self._start_anew(self.trial)  # an import may have worked out something by the change
            return None
        trial, self.trial = self.trial, None
        return trial, run

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._subject = self._session = None

    def _start_anew(self, trial: Trial) -> None:
        """Run the tests in a process that imports everything."""
        subject, mutant, order = trial.subject, trial.mutant, trial.order
        if mutant is not None:
            self._change.enter_context(self.tests.changed(mutant.path, mutant.source))
        if order is not None:
            plugin: object = Order(order, mutant.scope if mutant is not None else "")
        else:
            plugin = Observer(self.tests.root / subject.path, self.observed)
        self._ended = self.tests.start(subject.arguments, trial.limits, plugin).ended
        self._is_in_place = False

    def _may_change_in_place(self, mutant: Mutant) -> bool:
        return mutant.path.endswith(".py") and is_function(self._read(mutant.path), mutant.scope)

    def _session_of(
        self, subject: Subject, order: Mapping[str, Observed], limits: Limits
    ) -> Session | None:
        if self._subject is not subject:
            self.close()
            session = Session(self.tests, subject.arguments, subject.path, limits)
            session.start(Order(order, ""), self._read(subject.path))
            while (run := session.ended()) is None:
                time.sleep(POLL_S)
            self._subject, self._session = subject, session if run.has_passed else None
            if not run.has_passed:
                session.close()
        return self._session

    def _read(self, path: str) -> str:
        return (self.tests.root / path).read_text()


def tried(
    mutants: Sequence[tuple[Subject, Mutant]], root: Path, processes: int
) -> Iterator[tuple[Mutant, Run]]:
    """Run the tests of each mutant, after those of the files as they are.

    Raises: TestsFail where these fail.
    """
    subjects = {subject.path: subject for subject, _ in mutants}
    with (
        tempfile.TemporaryDirectory(prefix="atelier-mutants-") as folder,
        contextlib.ExitStack() as close,
    ):
        lanes = [
            close.enter_context(contextlib.closing(Lane(root, Path(folder, str(number)))))
            for number in range(processes)
        ]
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
        for trial, _, lane in _passed(first, lanes)
    ]
    return {
        trial.subject.path: Trial(subject=trial.subject, order=trial.order, limits=run.limits())
        for trial, run, _ in _passed(ordered, lanes)
    }


def _passed(trials: Sequence[Trial], lanes: Sequence[Lane]) -> Iterator[tuple[Trial, Run, Lane]]:
    """Run trials of files as they are; what fails is tried again, as other work may be to blame."""
    failed = dict[str, tuple[Trial, str]]()
    for _ in range(TRIES):
        failed = {}
        for trial, run, lane in _in_parallel(trials, lanes):
            if run.has_passed:
                yield trial, run, lane
            else:
                failed[trial.subject.path] = trial, lane.tests.log.read_text()[-2000:]
        trials = [trial for trial, _ in failed.values()]
    for path, (_, log) in failed.items():
        raise TestsFail(f"tests of {path} fail as it is:\n{log}")


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
