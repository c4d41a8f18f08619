"""Figures of the code as a whole: length of functions, docstrings, broad exception handlers."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.map import FILES, ROOT

PRODUCTION = [path for path in FILES if path.parts[0] != "bench"]
LINES_P95 = 20  #: of a function, its docstring included
MIN_DOCUMENTED = 0.95
MAX_BROAD = 13  #: the bar is 20
BROAD = {"Exception", "BaseException"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def trees() -> dict[Path, ast.Module]:
    """Parse all production code: once it is asked for, as each process of tests imports this."""
    return {path: ast.parse((ROOT / path).read_text()) for path in PRODUCTION}


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def public(body: list[ast.stmt], owner: ast.ClassDef | None = None) -> Iterator[tuple]:
    """Yield what other files may use: classes, functions, methods, and the class they are in."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node, owner
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, node)


def is_documented(node: Definition, owner: ast.ClassDef | None) -> bool:
    """Look at a definition, then at the method of a base that it overrides."""
    if ast.get_docstring(node):
        return True
    bases = [re.split(r"[.\[]", ast.unparse(base))[0] for base in owner.bases] if owner else []
    return any(
        getattr(method, "name", None) == node.name and is_documented(method, parent)
        for base in bases
        for parent in classes().get(base, [])
        for method in parent.body
    )


def functions() -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def broad() -> list[tuple[Path, str]]:
    """Every handler of whatever is raised: its file and its line."""
    return [
        (path, (ROOT / path).read_text().splitlines()[node.lineno - 1])
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or BROAD & set(re.findall(r"\w+", ast.unparse(node.type))))
    ]


def test_nineteen_functions_of_twenty_fit_into_twenty_lines() -> None:
    lengths = sorted(node.end_lineno - node.lineno + 1 for node in functions())
    assert lengths[int(0.95 * len(lengths))] <= LINES_P95


def test_what_is_public_is_documented() -> None:
    found = [(n, is_documented(n, o)) for tree in trees().values() for n, o in public(tree.body)]
    missing = [node.name for node, is_told in found if not is_told]
    assert len(missing) <= (1 - MIN_DOCUMENTED) * len(found), missing


def test_a_class_name_is_one_class() -> None:
    """What is private to a file, and what zoo, benches and client say of their own, may recur."""
    files: dict[str, set[Path]] = {}
    for path, tree in trees().items():
        if path.parts[0] not in {"zoo", "atelier_client"}:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    files.setdefault(node.name, set()).add(path)
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def test_few_handlers_catch_whatever_is_raised_and_each_says_why() -> None:
    assert len(broad()) <= MAX_BROAD
    assert [(path, line) for path, line in broad() if not re.search(r"# \w+ \w+", line)] == []
