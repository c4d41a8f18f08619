import re
from collections import Counter

from tests.map import FILES, ROOMS, ROOT, first_line

MAP = (ROOT / "docs/structure.md").read_text()
LARGEST = 15  #: files of a room; benches and the zoo are collections


def test_the_map_has_a_line_for_every_room_and_no_other() -> None:
    told = re.findall(r"^\| `([\w/]+)/` \|", MAP, re.MULTILINE)
    assert sorted(told) == sorted(str(room) for room in ROOMS)


def test_a_room_is_taken_in_at_a_glance() -> None:
    sizes = Counter(path.parent for path in FILES if path.parts[0] not in {"zoo", "bench"})
    assert {str(room): size for room, size in sizes.items() if size > LARGEST} == {}


def test_a_file_says_what_it_does_in_its_first_line() -> None:
    """All files in one test: one each would take five times as long."""
    told = {str(path): first_line(path) for path in FILES}
    assert {path: line for path, line in told.items() if not line or "?" in line} == {}


def test_whatever_the_map_names_by_its_path_is_there() -> None:
    houses = sorted({room.parts[0] for room in ROOMS})
    named = re.findall(rf"`((?:{'|'.join(houses)})/[\w/.]+)`", MAP.split("## The rooms")[0])
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists() or (ROOT / f"{name}.py").exists(), name
