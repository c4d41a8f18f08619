from hypothesis import given
from hypothesis import strategies as st

from router.listing import anyone, cursor_of, merge, place_of, shown_by

rows = st.lists(
    st.builds(
        lambda at, cell, n: {"id": f"{cell}_{n:032x}", "created_at": at / 1000},
        st.integers(0, 5),
        st.sampled_from("abc"),
        st.integers(0, 30),
    ),
    unique_by=lambda row: row["id"],
    max_size=40,
)


def page_of(cell, kept, cursor, limit):
    """A page of one cell, as the api reads it: newest first, from after a place."""
    own = sorted((r for r in kept if r["id"].startswith(cell)), key=place_of, reverse=True)
    if cursor:
        at, _, name = cursor.partition(".")
        own = [row for row in own if place_of(row) < (int(at), name)]
    page = own[:limit]
    last = place_of(page[-1]) if page else None
    return page, f"{last[0]}.{last[1]}" if last and len(own) > limit else None


@given(rows, st.integers(1, 5))
def test_pages_of_several_cells_show_each_row_once_newest_first(kept, limit):
    shown, cursor = [], None
    for _ in range(len(kept) + 2):
        merged = merge([page_of(cell, kept, cursor, limit) for cell in "abc"], limit)
        assert len(merged.rows) <= limit
        shown += merged.rows
        cursor = merged.cursor
        if cursor is None:
            break
    assert cursor is None
    assert shown == sorted(kept, key=place_of, reverse=True)


def test_what_ships_with_every_cell_is_shown_once_and_first():
    ours, kept = {"id": "edges", "created_at": None}, {"id": "a_1", "created_at": 1.0}
    merged = merge([([ours, kept], None), ([ours], None)], 20)
    assert merged.rows == [ours, kept]


def test_what_a_cell_keeps_is_shown_by_no_other():
    ours, kept, copied = ({"id": name} for name in ("edges", "eu_1", "us_1"))
    keeper = {"eu_1": "eu", "us_1": "us"}.get
    assert shown_by("eu", [ours, kept, copied], keeper) == [ours, kept]
    assert shown_by("us", [ours, copied], keeper) == [ours, copied]
    assert shown_by("eu", [kept, copied], anyone) == [kept, copied]


def test_moments_may_be_words_and_the_next_page_a_url():
    row = {"id": "a_1", "created_at": "2026-01-01T00:00:00.125000+00:00"}
    assert place_of(row) == (1767225600125, "a_1")
    assert cursor_of({"next": "http://h/v1/predictions?cursor=12.a_1"}) == "12.a_1"
    assert cursor_of({"next": None}) is None
    assert cursor_of({"cursor": "12.a_1"}) == "12.a_1"
