"""Find the statements that run on CUDA alone, and those of them that a call reaches."""

import ast
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tests.unit.ops.compose import ROOT
from tests.unit.ops.imports import PACKAGES

#: What ends a block: what follows an `if` that ends so is its other branch.
LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Statement:
    """One statement, without those inside it."""

    path: str
    function: str
    first: int  #: line
    last: int

    def __str__(self) -> str:
        return f"{self.path}:{self.first} in {self.function}"


def cuda_only() -> list[Statement]:
    """Find those that mention CUDA, or follow where it was asked for."""
    files = [path for name in sorted(PACKAGES) for path in sorted((ROOT / name).rglob("*.py"))]
    return [found for path in files for found in _statements(path)]


def _statements(path: Path) -> Iterator[Statement]:
    text = path.read_text()
    if "cuda" in text or '"cpu"' in text:
        yield from _block(str(path.relative_to(ROOT)), "", ast.parse(text).body, is_only=False)


def _block(path: str, function: str, body: list[ast.stmt], *, is_only: bool) -> Iterator[Statement]:
    for at in body:
        sign = _asks(at.test) if isinstance(at, ast.If) else None
        if not _is_docstring(at) and (is_only or (sign is None and _mentions(at))):
            yield Statement(path, function, at.lineno, _end(at))
        named = isinstance(at, ast.FunctionDef | ast.ClassDef)
        inside = f"{function}.{at.name}".lstrip(".") if named else function
        for name in ("body", "orelse", "finalbody"):
            is_branch = (sign is True and name == "body") or (sign is False and name == "orelse")
            inner = getattr(at, name, [])
            yield from _block(path, inside, inner, is_only=is_only or is_branch)
        for handler in getattr(at, "handlers", []):
            yield from _block(path, inside, handler.body, is_only=is_only)
        if sign is False and isinstance(at.body[-1], LEAVING):  # type: ignore[attr-defined]
            is_only = True


def _asks(test: ast.expr) -> bool | None:
    """Whether the branch is taken on CUDA alone (True), elsewhere alone (False), or neither."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            asked = _asks(operand)
            return None if asked is None else not asked
        case ast.BoolOp(op=ast.And(), values=values):
            return True if any(_asks(value) for value in values) else None
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.Constant(value)]):
            if value not in ("cuda", "cpu") or ".type" not in ast.unparse(test):
                return None
            return isinstance(op, ast.Eq) == (value == "cuda")
        case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant("cuda")]):
            return True
    return None


def _mentions(at: ast.stmt) -> bool:
    """Whether the statement itself has it, without annotations and what is inside."""
    match at:
        case ast.FunctionDef() | ast.ClassDef():
            return False
        case ast.AnnAssign(value=value):
            return value is not None and "cuda" in ast.unparse(value)
    parts = [each for each in ast.iter_child_nodes(at) if not isinstance(each, ast.stmt)]
    return any("cuda" in ast.unparse(part) for part in parts)


def _is_docstring(at: ast.stmt) -> bool:
    return isinstance(at, ast.Expr) and isinstance(at.value, ast.Constant)


def _end(at: ast.stmt) -> int:
    body = getattr(at, "body", None)
    return max(at.lineno, body[0].lineno - 1) if body else at.end_lineno or at.lineno


def reached(call: Callable[[], object], found: list[Statement]) -> set[Statement]:
    """Make a call; tell which of the statements ran, in whatever thread."""
    lines: set[tuple[str, int]] = set()
    files = {str(ROOT / statement.path) for statement in found}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]
    return {
        each
        for each in found
        if any((str(ROOT / each.path), at) in lines for at in range(each.first, each.last + 1))
    }
