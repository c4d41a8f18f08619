import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporting.chart import Chart, Curve, Mark, Shape, Shares
from reporting.document import Chapter, Document, KeyFigure
from reporting.files import as_csv, write
from reporting.html import render
from reporting.table import Column, Interval, Row, Table, best_of, reach
from reporting.unit import COUNT, NOTHING, QUALITY, SHARE, Unit


def a_chart(**more):
    curves = [Curve(name="one", values=[0.5, None, 1.0], paint="c0", shape=Shape.STEP)]
    given = {"name": "late", "title": "Late", "x": [0.0, 1.0, 2.0], "unit": SHARE, "curves": curves}
    return Chart(**given | {"marks": [Mark(at=0.1, text="at most")]} | more)


def a_table(cells=((0.9,), (0.8,)), **more):
    column = Column(title="goodput", unit=QUALITY, has_bar=True, is_best_high=True, **more)
    rows = [Row(name=f"policy {i}", cells=row) for i, row in enumerate(cells)]
    return Table(title="Policies", head="policy", columns=[column], rows=rows)


def a_document(*blocks, **more):
    chapter = Chapter(title="Chapter", blocks=blocks or (a_chart(), a_table()))
    return Document(title="Report", answer="It is well.", chapters=[chapter], **more)


def test_the_page_needs_nothing_but_itself():
    page = render(a_document())
    for outside in ("<link", " src=", "@import", "url("):
        assert outside not in page
    assert len(page) < 150_000


def test_whatever_it_is_given_is_never_markup():
    nasty = "</script><img src=x onerror=alert(1)>"
    shares = Shares(title=nasty, parts={nasty: "r0"}, rows={nasty: {nasty: 1.0}})
    row = Row(name=nasty, cells=[nasty])
    table = Table(title=nasty, head=nasty, columns=[Column(title=nasty)], rows=[row])
    page = render(
        a_document(
            a_chart(title=nasty),
            shares,
            table,
            run={nasty: nasty},
            notes={nasty: nasty},
            warnings=[nasty],
            keys=[KeyFigure(title=nasty, figure=nasty)],
        )
    )
    assert "<img" not in page
    assert page.count("</script>") == 3


def test_the_script_gets_every_figure_of_a_chart():
    page = render(a_document())
    embedded = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page)
    (chart,) = json.loads(embedded.group(1))
    assert chart["curves"][0]["values"] == [0.5, None, 1.0]
    assert chart["curves"][0]["shape"] == "step"
    assert chart["marks"] == [{"at": 0.1, "text": "at most", "upright": False}]


def test_what_was_run_is_said_without_what_was_left_open():
    run = {"fleet": {"h200": 6}, "fail": [], "slo_s": None, "is_example": True, "seed": 0}
    page = render(a_document(run=run))
    assert "<dt>fleet</dt><dd>h200=6</dd>" in page
    assert "<dt>is example</dt><dd>yes</dd>" in page
    assert "<dt>seed</dt><dd>0</dd>" in page
    assert "slo s" not in page and "<dt>fail</dt>" not in page


def test_a_chart_without_figures_says_so():
    assert "nothing to show" in render(a_document(a_chart(x=[])))


def test_the_best_figure_of_a_column_is_bold_and_a_draw_has_none():
    assert "<b>0.900</b>" in render(a_document(a_table()))
    assert best_of(a_table(cells=((0.9,), (0.9,))), 0) is None


def test_intervals_and_what_they_are_held_against_lie_on_one_scale():
    table = a_table(cells=((Interval(low=0.2, middle=0.4, high=0.6),), (0.5,)), bound=0.9)
    assert reach(table, 0) == (0.0, 0.9)
    assert "0.400<small>0.200 to 0.600</small>" in render(a_document(table))


def test_what_is_far_beyond_a_bound_hides_nothing_near_it():
    far, near = (Interval(low=x, middle=x, high=x) for x in (0.9, 0.012))
    table = a_table(cells=((far,), (near,)), bound=0.01)
    assert reach(table, 0) == (0.0, 0.04)
    page = render(a_document(table))
    assert "--middle:1.0000;" in page
    assert "--middle:0.3000;" in page


def test_a_bar_of_shares_is_read_aloud_as_a_whole():
    rows = {"atelier": {"m@0": 0.75, "m@5": 0.25}}
    page = render(a_document(Shares(title="Levels", parts={"m@0": "r0", "m@5": "r6"}, rows=rows)))
    assert "atelier: m@0 75.0\u202f%, m@5 25.0\u202f%" in page


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        (COUNT, 1234567.0, "1\u202f234\u202f567"),
        (SHARE, 0.0123, "1.2\u202f%"),
        (QUALITY, None, NOTHING),
        (QUALITY, float("nan"), NOTHING),
        (Unit(prefix="$", digits=2), -3.5, "\u2212$3.50"),
    ],
)
def test_figures_are_written_as_their_unit_says(unit, value, text):
    assert unit.write(value) == text


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_bars_never_leave_their_cells(figures):
    page = render(a_document(a_table(cells=[(figure,) for figure in figures])))
    widths = [float(width) for width in re.findall(r'<i style="width:([\d.]+)%"', page)]
    assert len(widths) == len(figures)
    assert all(0 <= width <= 100 for width in widths)


def test_four_files_hold_the_report(tmp_path):
    rows = [{"at_s": 0.0, "late": 0.5}, {"at_s": 10.0, "late": None}]
    paths = write(a_document(), tmp_path / "made", machine={"late": 0.5}, rows=rows)
    assert [path.name for path in paths] == [f"report.{k}" for k in ("html", "png", "json", "csv")]
    assert json.loads(paths[2].read_text()) == {"late": 0.5}
    assert paths[3].read_text() == "at_s,late\n0.0,0.5\n10.0,\n"


def test_no_rows_are_an_empty_file():
    assert as_csv([]) == ""
