import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.facades.replicate.translate import _named
from api.services.kept import CURSOR
from cli.client.picture import ELSEWHERE
from core.cells.ids import CELL, PATTERN, cell_of, is_id, new_id
from core.settings import Settings
from core.uploads.controlnet import is_kept
from storage.objects.image_states import StateKey
from storage.redis.index import read_cursor, write_cursor

cells = st.one_of(st.just(""), st.from_regex(CELL, fullmatch=True))


@given(cells)
def test_an_id_names_the_cell_that_made_it(cell):
    drawn = new_id(cell)
    assert cell_of(drawn) == cell
    assert is_id(drawn)
    assert new_id(cell) != drawn


def test_a_service_without_cells_has_ids_as_ever():
    assert re.fullmatch("[0-9a-f]{32}", new_id())


@given(cells)
def test_an_id_with_its_cell_is_one_wherever_ids_are_read(cell):
    drawn = new_id(cell)
    assert is_kept(drawn)
    assert re.fullmatch(PATTERN, drawn)
    assert ELSEWHERE.fullmatch(drawn)
    assert re.match(CURSOR, cursor := write_cursor(1, drawn))
    assert read_cursor(cursor) == (1, drawn)
    state = StateKey(tenant="acme", job_id=drawn, fence=1, index=0)
    assert StateKey.read(str(state)) == state
    assert _named(f"http://here/v1/files/{drawn}", "http://here") == drawn


@pytest.mark.parametrize("text", ["", "a", "A_" + "0" * 32, "a_" + "0" * 31, "_" + "0" * 32])
def test_what_no_cell_has_made_is_no_id(text):
    assert cell_of(text) is None
    assert not is_id(text)


@pytest.mark.parametrize("name", ["A", "a_b", "a-b", "0", "a" * 17])
def test_a_name_that_ids_could_not_carry_is_refused(name):
    with pytest.raises(ValueError, match="cell"):
        Settings(cell=name)
