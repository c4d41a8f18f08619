from hypothesis import given
from hypothesis import strategies as st

from core.text import escape, shorten


@given(st.text())
def test_what_is_escaped_has_no_control_character_and_else_is_as_it_was(text):
    escaped = escape(text)
    assert "\x1b" not in escaped and "\n" not in escaped and "\u202e" not in escaped
    if text.isprintable():
        assert escaped == text


def test_lines_are_kept_where_they_are_ours():
    assert escape("a\n\tb\r\x1b", keeps_lines=True) == "a\n\tb\\r\\x1b"


@given(st.text(max_size=300), st.integers(0, 200))
def test_what_is_shortened_says_how_long_it_was(text, limit):
    shortened = shorten(text, limit)
    assert len(shortened) <= limit + 30
    assert shortened == text or f"({len(text)} characters)" in shortened
