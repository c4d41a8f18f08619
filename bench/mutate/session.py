"""Run tests with one function changed, in forks of a session that has collected them already."""

import ast
import contextlib
import gc
import math
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Sequence
from multiprocessing.connection import Connection
from types import CodeType, FunctionType

import pytest

from bench.mutate.forked import Child, ForkedTests, Limits, Run
from bench.mutate.order import Order

#: Exit status of a fork whose change cannot be made in place.
NOT_IN_PLACE = 71


class Session:
    """A session of pytest in a process of its own, which has collected the tests of one module."""

    def __init__(
        self, tests: ForkedTests, arguments: Sequence[str], path: str, limits: Limits
    ) -> None:
        """Begin; limits are those of each run."""
        self._connection, other = multiprocessing.Pipe()
        loop = _Loop(other, str(tests.root / path), limits)
        forever = Limits(seconds=math.inf, cpu_s=math.inf)
        self._child = tests.start(arguments, forever, loop)
        other.close()

    def start(self, order: Order, source: str) -> None:
        """Begin to run the tests with the functions of another source of the module."""
        with contextlib.suppress(OSError):
            self._connection.send((order, source))

    def ended(self) -> Run | None:
        """Say what became of them once they have ended."""
        try:
            found: Run | None = self._connection.recv() if self._connection.poll() else None
        except (EOFError, OSError):
            return Run(status=NOT_IN_PLACE, seconds=0.0)  # the session has come to its end
        return found

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._child.kill()


class _Loop:
    """A plugin of pytest that runs what was collected again and again, each time changed."""

    def __init__(self, connection: Connection, file: str, limits: Limits) -> None:
        self._connection, self._file, self._limits = connection, file, limits

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Fork for each change: the fork goes on to run the tests, in an order of its own."""
        gc.unfreeze()
        functions = functions_of(self._file)
        gc.freeze()
        while True:
            order, source = self._connection.recv()
            child = Child.fork(self._limits)
            if child is None:
                _change(functions, source, self._file)
                order.pytest_collection_modifyitems(session.items)
                return
            self._connection.send(child.wait())


def functions_of(file: str) -> list[FunctionType]:
    """List the functions of a module and of its classes, in the order of their lines."""
    found = [
        each
        for each in gc.get_objects()
        if type(each) is FunctionType  # of a proxy `isinstance` would ask what it stands for
        and each.__code__.co_filename == file
        and "<locals>" not in each.__code__.co_qualname
    ]
    return sorted(found, key=lambda each: _position(each.__code__))


def change(functions: Sequence[FunctionType], source: str, file: str) -> None:
    """Give functions the code that they have in another source of their module.

    Raises: ValueError or IndexError where that takes more than another code.
    """
    codes: dict[str, list[CodeType]] = defaultdict(list)
    _collect(compile(source, file, "exec"), codes)
    turns: dict[str, list[CodeType]] = defaultdict(list)
    for each in functions:
        name = each.__code__.co_qualname
        if each.__code__ not in turns[name]:
            turns[name].append(each.__code__)
    for each in functions:
        name = each.__code__.co_qualname
        each.__code__ = codes[name][turns[name].index(each.__code__)]


def is_function(source: str, scope: str) -> bool:
    """Tell whether a scope of a module is a function or lies in one."""
    body: Sequence[ast.AST] = ast.parse(source).body
    for name in scope.split("."):
        named = [each for each in body if getattr(each, "name", None) == name]
        if not named or not isinstance(named[0], ast.ClassDef):
            return bool(named)
        body = named[0].body
    return False


def _change(functions: Sequence[FunctionType], source: str, file: str) -> None:
    try:
        change(functions, source, file)
    except (ValueError, IndexError):
        os._exit(NOT_IN_PLACE)


def _collect(code: CodeType, codes: dict[str, list[CodeType]]) -> None:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    for each in sorted(inner, key=_position):
        if "<locals>" not in each.co_qualname:
            codes[each.co_qualname].append(each)
            _collect(each, codes)


def _position(code: CodeType) -> tuple[int, int]:
    """Say where a code begins: its line, and the column of its first instruction."""
    columns = [column or 0 for _, _, column, _ in code.co_positions()]
    return code.co_firstlineno, min(columns, default=0)
