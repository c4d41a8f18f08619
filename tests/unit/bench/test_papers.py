import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "papers.md"
COMMAND = re.compile(r"python -m (bench|zoo)((?:\.\w+)+)((?: [\w./=-]+)*)")
#: Cells of a row: figure, what the paper says, command, what is measured, why they differ.
COLUMNS = 5
#: Fewest letters that a bench itself writes of a figure's name; the rest it fills in.
FEWEST = 4


class Row(NamedTuple):
    figure: str
    command: str
    names: tuple[str, ...]


def rows() -> Iterator[Row]:
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == COLUMNS and cells[0] != "figure":
            figure, _, command, measured, _ = cells
            yield Row(figure, command.strip("`"), tuple(re.findall(r"`([^`]+)`", measured)))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> Iterator[Path]:
    """A bench and the parts it stands on."""
    yield path
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench."):
            assert node.module is not None
            yield ROOT / Path(*node.module.split(".")).with_suffix(".py")


def written(path: Path) -> Iterator[str]:
    """Patterns of the strings of a file: what is filled in may be anything."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.JoinedStr):
            yield _pattern(node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _pattern([node])


def _pattern(parts: Sequence[ast.expr]) -> str:
    """Join what is written; what `format` or an f-string fills in is anything."""
    texts = [str(each.value) if isinstance(each, ast.Constant) else "{}" for each in parts]
    kept = "".join(texts).split("{}")
    return ".+".join(map(re.escape, kept)) if sum(map(len, kept)) >= FEWEST else "(?!)"


def options(path: Path) -> set[str]:
    mains = [n for n in tree(path).body if isinstance(n, ast.FunctionDef) and n.name == "main"]
    declared = re.findall(r'"(--[\w-]+)"', path.read_text())
    named = (arg.arg for main in mains for arg in (*main.args.args, *main.args.kwonlyargs))
    return {"--" + name.replace("_", "-") for name in named} | set(declared)


def path_of(command: str) -> tuple[Path, list[str]]:
    found = COMMAND.fullmatch(command)
    assert found is not None, command
    package, modules, rest = found.groups()
    return ROOT / (package + modules.replace(".", "/") + ".py"), shlex.split(rest)


def test_the_page_has_every_figure_that_was_asked_for() -> None:
    named = " ".join(row.figure for row in rows())
    wanted = {
        "Argus": (10, 12, 16, 17, 19, 20),
        "Proteus": (4, 5, 6, 7, 8, 9, 10),
        "InstGenIE": (3, 12, 13, 14, 15, 16),
        "Katz": (5, 6, 7, 14),
    }
    for paper, numbers in wanted.items():
        for number in numbers:
            assert f"{paper} Fig. {number}" in named
    assert "InstGenIE Table 2" in named
    assert "Katz Table 3" in named
    assert "SwiftDiffusion" in named


@pytest.mark.parametrize("command", sorted({row.command for row in rows()}))
def test_a_command_of_the_page_exists_with_its_options(command: str) -> None:
    path, rest = path_of(command)
    assert path.is_file()
    given = {each.partition("=")[0] for each in rest if each.startswith("--")}
    assert given <= options(path)


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.figure)
def test_a_figure_that_the_page_names_is_one_of_its_command(row: Row) -> None:
    path, _ = path_of(row.command)
    known = [pattern for each in imported(path) for pattern in written(each)]
    for name in row.names:
        assert any(re.fullmatch(pattern, name) for pattern in known), name
