import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAP = (ROOT / "docs/structure.md").read_text()
HOUSES = ["api", "scheduler", "tasks", "worker", "storage", "core"]
HOUSES += ["loadgen", "cli", "zoo", "bench"]
FILES = [
    path.relative_to(ROOT)
    for house in HOUSES
    for path in sorted((ROOT / house).rglob("*.py"))
    if path.stem != "__init__"
]


def first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse((ROOT / path).read_text())) or "").partition("\n")[0]


@pytest.mark.parametrize("room", sorted({path.parent for path in FILES}), ids=str)
def test_the_map_has_the_sentence_of_every_file_and_no_other(room: Path) -> None:
    section = MAP.split(f"### `{room}/`", 1)[1].split("\n###", 1)[0]
    told = dict(re.findall(r"^- `(\w+)` (.*)$", section, re.MULTILINE))
    assert told == {path.stem: first_line(path) for path in FILES if path.parent == room}


def test_whatever_the_map_names_by_its_path_is_there() -> None:
    named = re.findall(rf"`((?:{'|'.join(HOUSES)})/[\w/.]+)`", MAP.split("## The rooms")[0])
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists() or (ROOT / f"{name}.py").exists(), name
