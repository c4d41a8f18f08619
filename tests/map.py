"""Print every file with the first line of its docstring, room by room: `python -m tests.map`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOUSES = ("run", "api", "scheduler", "tasks", "worker", "classifier", "storage", "catalog", "core")
BESIDE = (
    "router",
    "profiling",
    "loadgen",
    "reporting",
    "simulator",
    "cli",
    "atelier_client",
    "zoo",
    "bench",
)
FILES = [
    path.relative_to(ROOT)
    for house in HOUSES + BESIDE
    for path in sorted((ROOT / house).rglob("*.py"))
    if path.stem != "__init__"
]
ROOMS = sorted({folder for path in FILES for folder in path.parents if folder.parts})


def first_line(path: Path) -> str:
    """Read the first line of a file's docstring."""
    return (ast.get_docstring(ast.parse((ROOT / path).read_text())) or "").partition("\n")[0]


if __name__ == "__main__":
    for room in ROOMS:
        print(f"{room}/")
        for path in FILES:
            if path.parent == room:
                print(f"    {path.stem:<24} {first_line(path)}")
