"""Tables on terminals of any width: no column is ever lost."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from cli.client.tables import TableColumn, print_table

COLUMNS = (
    "id",
    "models",
    TableColumn(name="prompt", is_cut=True),
    TableColumn(name="MiB", is_number=True),
)
ROWS = [("0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5", "shapes-xl shapes-m", "a red circle " * 9, "12.5")]


@pytest.fixture
def printed(monkeypatch, capsys):
    def printed(width, columns=COLUMNS, rows=ROWS):
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(columns, rows)
        return capsys.readouterr().out

    return printed


def test_a_wide_terminal_shows_a_line_a_row(printed):
    head, row = printed(100).splitlines()
    assert head.split() == ["id", "models", "prompt", "MiB"]
    assert ROWS[0][0] in row and row.rstrip().endswith("12.5") and "…" in row


def test_a_narrow_one_shows_a_field_a_line(printed):
    out = printed(60)
    assert [line.split()[0] for line in out.splitlines() if not line.startswith("   ")][:2] == [
        "id",
        "models",
    ]
    assert ROWS[0][0] in out and "12.5" in out
    assert out.count("circle") == 9
    assert max(map(len, out.splitlines())) <= 60


def test_what_is_piped_is_cut_nowhere(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(COLUMNS, ROWS)
    assert ROWS[0][2].strip() in capsys.readouterr().out


words = st.text("abc\u7ea2", min_size=1, max_size=40)


@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=4), st.integers(60, 200))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_may_not_be_cut_is_there_in_full(printed, rows, width):
    out = printed(width, ("one", "two", TableColumn(name="three", is_cut=True)), rows)
    assert all(cell in out for row in rows for cell in row[:2])
    assert all(name in out for name in ("one", "two", "three"))
    assert all(cell_len(line.rstrip()) <= width for line in out.splitlines())
