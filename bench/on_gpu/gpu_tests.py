"""Run tests/gpu, and tell how many have passed and which have not, test by test."""

import os
from collections import Counter
from pathlib import Path

import pytest

from bench.on_gpu.part import Part, Tell
from bench.parts.report import at_most, plain

ROOT = Path(__file__).parents[2]
#: Those that our tests ask for: a machine may have others that do not bear ours.
PLUGINS = ("xdist.plugin", "pytest_asyncio.plugin", "pytest_timeout")
PROCESSES = 8  #: that share the device


class Counted:
    """A plugin that tells what became of each test."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._ended: Counter[str] = Counter()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when != "call":
            return
        self._ended[report.outcome] += 1
        if report.failed:
            lines = str(report.longrepr).strip().splitlines() or ["it said nothing"]
            self._tell(None, f"`{report.nodeid}`: {lines[-1][:200]}")
        self._tell("tests passed", plain(self._ended["passed"], "tests"))
        self._tell("tests skipped", plain(self._ended["skipped"], "tests"))
        self._tell("tests failed", at_most(self._ended["failed"], 0, "tests"))


def measure(part: Part, tell: Tell, is_dry: bool, seconds: float) -> None:
    """Run them; whoever runs this ends it."""
    del part, seconds
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = [word for name in PLUGINS for word in ("-p", name)]
    # Warnings are not errors there: libraries of other versions than ours give others.
    options = ["-q", "-m", "gpu", "-W", "default", "-p", "no:cacheprovider", "--durations=0"]
    where = ["--device", "cpu"] if is_dry else ["-n", str(PROCESSES)]
    ended = pytest.main(
        [*plugins, *options, *where, str(ROOT / "tests/gpu")], plugins=[Counted(tell)]
    )
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {ended!r}")
