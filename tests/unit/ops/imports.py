"""Name the modules that a program reaches, whenever it imports them: read from the sources."""

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from tests.unit.ops.compose import ROOT

PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
NAME = re.compile(rf"({'|'.join(sorted(PACKAGES))})(\.\w+)+")


def source_of(module: str) -> Path | None:
    """Find the file of one of our modules."""
    path = ROOT / Path(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def imports_of(module: str) -> frozenset[str]:
    """Name what a module imports, in functions too, and what it names in strings."""
    file = source_of(module)
    assert file is not None, module
    return frozenset(_named(_without_types(ast.parse(file.read_text()))))


def reached(*entries: str, without: Collection[str] = ()) -> tuple[set[str], set[str]]:
    """Follow imports from the entry modules: ours, and the top-level names of others'.

    `without`: modules that are named there and run by other programs.
    """
    ours: set[str] = set()
    others: set[str] = set()
    todo = list(entries)
    while todo:
        name = todo.pop()
        if name in ours or name in without:
            continue
        if name.partition(".")[0] not in PACKAGES:
            others.add(name.partition(".")[0])
        elif source_of(name):
            ours.add(name)
            todo += [*imports_of(name), *(name.rpartition(".")[:1] if "." in name else ())]
    return ours, others


def _without_types(tree: ast.Module) -> ast.Module:
    """Leave out what only type checkers import."""

    class Types(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | None:
            is_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            return None if is_types else self.generic_visit(node)

    return Types().visit(tree)  # type: ignore[no-any-return]


def _named(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = NAME.fullmatch(node.value.partition(":")[0])
            if found:
                yield found[0]
