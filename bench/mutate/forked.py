"""Run tests in forks of one process that has imported the libraries, and none of our modules.

A copy of the repository is tested, so that a mutant changes no file that anybody else reads.
"""

import contextlib
import gc
import importlib
import math
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

#: Examples of hypothesis are the same for each mutant; nothing is cached from one to the next.
_OPTIONS = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "--hypothesis-profile=ci")
POLL_S = 0.01
#: How long tests may take no CPU time at all: they wait for what never comes.
IDLE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What became of some tests."""

    status: int | None  #: pytest's exit status; negative: the signal; None: not in time
    seconds: float
    cpu_s: float = 0.0

    def limits(self) -> "Limits":
        """Give a mutant several times what its tests take, and some for whatever else runs here."""
        return Limits(seconds=20.0 + 5 * self.seconds, cpu_s=5.0 + 2 * self.cpu_s)

    @property
    def has_passed(self) -> bool:
        return self.status == pytest.ExitCode.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Beyond which tests are ended: a loop by its CPU time, a wait by the clock."""

    seconds: float = 300.0
    cpu_s: float = 300.0


@dataclass(slots=True, kw_only=True)
class Child:
    """A fork of this process."""

    pid: int
    began: float  #: of this machine's monotonic clock
    limits: Limits
    _cpu_s: float = 0.0  #: that it had taken when it was last seen to have taken some
    _since: float = field(init=False)  #: of the monotonic clock, when that was

    def __post_init__(self) -> None:
        self._since = self.began

    @classmethod
    def fork(cls, limits: Limits) -> "Child | None":
        """Fork, within limits. None: this is the child."""
        began = time.monotonic()
        if pid := os.fork():
            return cls(pid=pid, began=began, limits=limits)
        if math.isfinite(limits.cpu_s):
            cpu_s = int(limits.cpu_s)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
        return None

    def ended(self) -> Run | None:
        """Say what became of it once it has ended; end it if it takes too long."""
        taken_s = time.monotonic() - self.began
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid:
            code, cpu_s = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
            return Run(status=code, seconds=taken_s, cpu_s=cpu_s)
        if taken_s < self.limits.seconds and not self._is_idle():
            return None
        self.kill()
        return Run(status=None, seconds=taken_s)

    def _is_idle(self) -> bool:
        """Tell whether it has done nothing for too long; of one that is never ended, never."""
        now = time.monotonic()
        if math.isinf(self.limits.seconds) or now < self._since + IDLE_S:
            return False
        times = psutil.Process(self.pid).cpu_times()
        self._since, before, self._cpu_s = now, self._cpu_s, times.user + times.system
        return self._cpu_s == before

    def wait(self) -> Run:
        """Wait until it has ended."""
        while (run := self.ended()) is None:
            time.sleep(POLL_S)
        return run

    def kill(self) -> None:
        """End it and all that it has begun."""
        own = psutil.Process(self.pid)
        for process in (*own.children(recursive=True), own):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        os.waitpid(self.pid, 0)


def copy_tree(root: Path, copy: Path) -> None:
    """Copy every file that git knows or would add."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)


class ForkedTests:
    """Runs tests of one copy of the repository, one process at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "tests.log"  #: what the last run printed
        self._changes = 0

    def prepare(self, tests: Sequence[str]) -> None:
        """Import the libraries that some tests import, so that their forks need not."""
        seen = _Imported(self.root / "imported.txt")
        self.start(["--collect-only", *tests], Limits(), seen).wait()
        ours = {path.stem for path in self.root.iterdir()}
        for name in seen.found.read_text().split():
            if name.partition(".")[0] not in ours:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        gc.collect()
        gc.freeze()

    def start(self, arguments: Sequence[str], limits: Limits, *plugins: object) -> Child:
        """Begin to run tests until the first fails; arguments and plugins are those of pytest."""
        child = Child.fork(limits)
        if child is None:
            self._test(arguments, plugins)
        return child

    @contextlib.contextmanager
    def changed(self, path: str, source: str) -> Iterator[None]:
        """Put another file in the place of one; each has a time of its own, for Python's cache."""
        file = self.root / path
        before = file.read_text()
        self._write(file, source)
        try:
            yield
        finally:
            self._write(file, before)

    def _write(self, file: Path, source: str) -> None:
        self._changes += 1
        file.write_text(source)
        os.utime(file, (self._changes, self._changes))

    def _test(self, arguments: Sequence[str], plugins: Sequence[object]) -> NoReturn:
        """Be the child: run the tests and end."""
        status = 70
        try:
            os.chdir(self.root)
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.environ["PYTHONPATH"] = str(self.root)
            sys.path.insert(0, str(self.root))
            status = int(pytest.main([*_OPTIONS, *arguments], plugins=plugins))
        finally:
            os._exit(status)


class _Imported:
    """A plugin of pytest that writes down which modules tests have imported."""

    def __init__(self, found: Path) -> None:
        self.found = found

    def pytest_sessionfinish(self) -> None:
        self.found.write_text("\n".join(sys.modules))
