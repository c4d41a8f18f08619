"""Order tests so that those come first which enter what was changed, the fastest first."""

import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What one test did with the code as it is."""

    seconds: float
    scopes: frozenset[str]  #: functions of the file that it entered, as a mutant names them


class Observer:
    """A plugin of pytest that times each test and sees which functions of a file it enters."""

    def __init__(self, file: Path, found: Path) -> None:
        """Observe a module; write what was seen when the session ends."""
        self._file, self._found = str(file), found
        self._entered: set[str] = set()
        self._tests: dict[str, tuple[float, list[str]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._entered.clear()
        started = time.monotonic()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self._tests[item.nodeid] = (time.monotonic() - started, sorted(self._entered))

    def pytest_sessionfinish(self) -> None:
        self._found.write_text(json.dumps(self._tests))

    def _enter(self, frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_filename == self._file:
            name = frame.f_code.co_qualname.partition(".<locals>.<")[0]
            self._entered.add(name.replace(".<locals>", ""))


class Order:
    """A plugin of pytest that runs the likeliest tests to notice a change first."""

    def __init__(self, tests: Mapping[str, Observed], scope: str) -> None:
        self._tests, self._scope = tests, scope

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._rank(item.nodeid))

    def _rank(self, name: str) -> tuple[bool, float]:
        seen = self._tests.get(name)
        return (True, 0.0) if seen is None else (self._scope not in seen.scopes, seen.seconds)


def read_observed(found: Path) -> dict[str, Observed]:
    """Read what an observer wrote."""
    tests: Mapping[str, tuple[float, Sequence[str]]] = json.loads(found.read_text())
    return {
        name: Observed(seconds=seconds, scopes=frozenset(scopes))
        for name, (seconds, scopes) in tests.items()
    }
