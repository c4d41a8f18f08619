import re
from pathlib import Path

import pytest

from tests.map import FILES, ROOMS, ROOT, first_line

MAP = (ROOT / "docs/structure.md").read_text()
LARGEST = 15  #: files of a room; benches and the zoo are collections


def test_the_map_has_a_line_for_every_room_and_no_other() -> None:
    told = re.findall(r"^\| `([\w/]+)/` \|", MAP, re.MULTILINE)
    assert sorted(told) == sorted(str(room) for room in ROOMS)


@pytest.mark.parametrize("room", [r for r in ROOMS if r.parts[0] not in {"zoo", "bench"}], ids=str)
def test_a_room_is_taken_in_at_a_glance(room: Path) -> None:
    assert sum(path.parent == room for path in FILES) <= LARGEST


def test_a_file_says_what_it_does_in_its_first_line() -> None:
    lines = {path: first_line(path) for path in FILES}
    assert {path: line for path, line in lines.items() if not line or "?" in line} == {}


def test_whatever_the_map_names_by_its_path_is_there() -> None:
    houses = sorted({room.parts[0] for room in ROOMS})
    named = re.findall(rf"`((?:{'|'.join(houses)})/[\w/.]+)`", MAP.split("## The rooms")[0])
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists() or (ROOT / f"{name}.py").exists(), name
