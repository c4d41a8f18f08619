import json

import pytest

from core.errors import ConfigurationError
from router.cells import CellsFile, CellState, keeper_of, parse_cells

URL = "http://10.0.0.1:8000"
HEX = "0123456789abcdef" * 2


def cells(**said):
    return json.dumps({name: {"url": URL, **each} for name, each in said.items()}).encode()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"{}", "there is none"),
        (b"[", "cells:"),
        (cells(EU={}), "no name of a cell"),
        (json.dumps({"eu": {"url": "redis://h"}}).encode(), "none of an api"),
        (cells(eu={"weight": 0}), "weight"),
        (cells(eu={"state": "gone"}), "state"),
        (cells(eu={}, us={"state": "closed"}), "leave the cell out"),
        (cells(eu={}, us={"heir": "eu"}), "drain it"),
        (cells(eu={}, us={"state": "draining", "heir": "us"}), "no other cell"),
        (cells(eu={}, us={"state": "draining", "heir": "ap"}), "no other cell"),
        (
            cells(us={"state": "closed", "heir": "eu"}, eu={"state": "closed", "heir": "us"}),
            "no other cell",
        ),
    ],
)
def test_a_file_that_cannot_be_is_refused_with_what_is_wrong(text, fault):
    with pytest.raises(ConfigurationError, match=fault):
        parse_cells(text)


def test_what_was_kept_is_the_heirs_and_then_its_heirs():
    found = parse_cells(
        cells(us={"state": "closed", "heir": "eu"}, eu={"state": "draining", "heir": "ap"}, ap={})
    )
    assert {name: keeper_of(name, found) for name in found} == {"us": "ap", "eu": "ap", "ap": "ap"}


def test_a_closed_cell_is_no_cell_and_still_the_first(tmp_path):
    path = tmp_path / "cells.json"
    path.write_bytes(cells(us={"state": "closed", "heir": "eu"}, eu={}))
    file = CellsFile(path)
    assert {name: cell.state for name, cell in file.cells.items()} == {"eu": CellState.OPEN}
    assert (file.first, file.keepers) == ("us", {"us": "eu", "eu": "eu"})
    kept = (f"us_{HEX}", f"eu_{HEX}", HEX, f"ap_{HEX}", "edges")
    assert [file.keeper_of_id(each) for each in kept] == ["eu", "eu", "eu", None, None]
