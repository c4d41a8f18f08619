"""A report in a real browser: steered by pointer, touch and keys, read aloud, no network."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.page.lay_out import lay_out as lay_out_load
from loadgen.report import make_report
from loadgen.sample import ClientOutcome, RequestSample
from loadgen.workload import Workload
from reporting.chart import Chart, Curve, Mark, Shape, Shares
from reporting.document import Chapter, Document, KeyFigure
from reporting.html import render
from reporting.palette import ramp
from reporting.table import Column, Interval, Row, Table
from reporting.unit import QUALITY, SECONDS, SHARE
from simulator.report.lay_out import lay_out as lay_out_policies
from simulator.report.write import names_of
from simulator.sizing.answer import Sizing
from simulator.sizing.goal import Day, Goal, judge
from simulator.sizing.page import lay_out as lay_out_plan
from tests.e2e.shared.browser import BINARY, Page, browsing
from tests.unit.simulator.report.outcomes import an_outcome

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not BINARY.exists() and "CI" not in os.environ, reason="apt-get install chromium"
    ),
]

#: axe-core (MPL-2.0, https://github.com/dequelabs/axe-core): what is wrong for who cannot see.
AXE = (Path(__file__).parents[1] / "vendor/axe-4.14.1.min.js").read_text()

LEVELS = ("m@0", "m@5", "s@0")


def a_document() -> Document:
    at = [float(i * 10) for i in range(30)]
    one = Curve(name="atelier", values=[i / 100 for i in range(30)], paint="c0")
    two = Curve(name="argus", values=[i / 50 for i in range(30)], paint="c1", shape=Shape.STEP)
    late = Chart(
        name="late",
        title="Late",
        x=at,
        unit=SHARE,
        curves=[one, two],
        marks=[Mark(at=0.1, text="most")],
    )
    shares = [
        Curve(name=name, values=[1 / 3] * 30, paint=paint, shape=Shape.AREA)
        for name, paint in ramp(LEVELS).items()
    ]
    levels = Chart(
        name="levels", title="Levels", x=at, unit=SHARE, high=1.0, curves=shares, is_stacked=True
    )
    done = Chart(
        name="took",
        title="Took",
        x=[0.0, 1.0, 2.0],
        x_unit=SECONDS,
        unit=SHARE,
        curves=[Curve(name="done", values=[0.0, 0.5, 1.0], paint="c0")],
    )
    bars = Shares(
        title="Shares", parts=ramp(LEVELS), rows={"atelier": dict.fromkeys(LEVELS, 1 / 3)}
    )
    columns = [
        Column(title="goodput", unit=QUALITY, has_bar=True),
        Column(title="late", unit=SHARE, bound=0.1),
    ]
    columns += [Column(title=f"column {i}", unit=SECONDS) for i in range(8)]
    row = Row(
        name="atelier",
        paint="c0",
        cells=[0.9, Interval(low=0.0, middle=0.1, high=0.2), *([1.0] * 8)],
    )
    table = Table(title="Policies", head="policy", columns=columns, rows=[row])
    chapter = Chapter(title="All", about="Everything.", blocks=[late, levels, done, bars, table])
    keys = [KeyFigure(title="Late", figure="10 %", about="of all", tone="bad")]
    return Document(
        title="Report",
        answer="It is well.",
        tone="good",
        warnings=["Beware."],
        keys=keys,
        chapters=[chapter],
        run={"seed": 0},
        notes={"late": "Too late."},
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser, tmp_path) -> Page:
    (tmp_path / "report.html").write_text(render(a_document()))
    browser.show_as(width=1280, is_dark=False)
    browser.open((tmp_path / "report.html").as_uri())
    return browser


def a_plan() -> Document:
    goal = Goal(max_late=0.01, min_quality=0.9)
    day = Day(
        jobs=1000,
        late=0.002,
        quality=0.95,
        goodput=0.94,
        utilisation=0.7,
        images=1000.0,
        reach_s=9.0,
        levels={"m@0": 0.7, "m@5": 0.3},
    )
    trial = judge({"h200": 2, "l40s": 0}, [day] * 3, goal)
    less = judge({"h200": 1, "l40s": 1}, [replace(day, late=0.3)], goal)
    sizing = Sizing(
        goal=goal,
        slo_s=12.6,
        prices={"h200": 3.5, "l40s": 0.9},
        best=trial,
        trials=(less, trial),
        untried=1,
        least=5.0,
        image_costs={"m@0": {"h200": 0.003}, "m@5": {"h200": 0.002, "l40s": 0.003}},
        hours=0.5,
    )
    return lay_out_plan(sizing, Workload.of([float(i) for i in range(100)]), {"seed": 0})


def a_load() -> Document:
    samples = [
        RequestSample(
            due_s=i / 2,
            sent_s=i / 2,
            ended_s=i / 2 + 2.0,
            ending=ClientOutcome.SUCCEEDED if i % 9 else ClientOutcome.REFUSED,
            error=None if i % 9 else "HTTP 503",
            level=LEVELS[i % 3],
            model=LEVELS[i % 3][0],
            quality=0.9,
        )
        for i in range(60)
    ]
    return lay_out_load(make_report(samples, {"rate": 2.0}, slo_s=3.0), samples)


def policies() -> Document:
    named = names_of([an_outcome("atelier"), an_outcome("argus", slow=2.0)])
    return lay_out_policies(named, {"fleet": {"h200": 8}}, {"h200": 3.5})


def under_cursor(page, chart=0):
    said = f"document.querySelectorAll('.plot')[{chart}].getAttribute('aria-valuetext')"
    return str(page.evaluate(said))


def middle_of(page, chart=0):
    place = f"document.querySelectorAll('.plot .u-over')[{chart}]"
    page.evaluate(f"{place}.scrollIntoView({{block: 'center'}})")
    box = json.loads(page.evaluate(f"JSON.stringify({place}.getBoundingClientRect())"))
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("is_dark", [False, True])
def test_it_can_be_read_on_a_screen_and_on_a_phone_in_light_and_dark(page, width, is_dark):
    page.show_as(width=width, is_dark=is_dark)
    page.evaluate("dispatchEvent(new Event('resize'))")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = page.evaluate(f"{AXE}; axe.run().then(found => JSON.stringify(found.violations))")
    assert json.loads(found) == []
    drawn = "document.querySelector('.plot canvas').getBoundingClientRect().width"
    assert page.evaluate(f"{drawn} > {width} / 3")
    assert page.complaints == []


def test_keys_move_one_cursor_over_all_figures_of_one_time(page):
    page.evaluate("document.querySelector('.plot').focus()")
    for key in ("Home", "ArrowRight", "ArrowRight"):
        page.press(key)
    assert under_cursor(page) == "0:20: atelier 2.0\u202f%, argus 4.0\u202f%"
    assert under_cursor(page, 1).startswith("0:20: m@0 33.3")
    page.press("End")
    assert under_cursor(page).startswith("4:50")


def test_a_pointer_over_a_figure_tells_its_values(page):
    page.show_as(width=1280, is_dark=False)
    page.evaluate("dispatchEvent(new Event('resize'))")
    page.point(*middle_of(page))
    page.until("document.querySelector('.legend .when').textContent.match(/^2:[23]0$/)")


def test_a_finger_on_a_figure_tells_its_values(page):
    page.touch(*middle_of(page, 2))
    page.until(
        "document.querySelectorAll('.plot')[2].getAttribute('aria-valuetext').startsWith('1.00')"
    )


def test_a_name_hides_its_line_and_shows_it_again(page):
    button = "document.querySelectorAll('.legend button')[1]"
    for shown in ("false", "true"):
        page.evaluate(f"{button}.click()")
        assert page.evaluate(f"{button}.getAttribute('aria-pressed')") == shown


def test_its_figures_are_there_as_a_table(page):
    page.evaluate("document.querySelector('details').open = true")
    page.until("document.querySelectorAll('details')[0].querySelectorAll('tbody tr').length === 30")


@pytest.mark.parametrize("made", [a_load, policies, a_plan])
def test_every_report_can_be_read_on_a_phone_and_by_those_who_cannot_see(page, tmp_path, made):
    (tmp_path / "report.html").write_text(render(made()))
    page.show_as(width=390, is_dark=True)
    page.open((tmp_path / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.querySelectorAll('.plot canvas').length > 0")
    found = page.evaluate(f"{AXE}; axe.run().then(found => JSON.stringify(found.violations))")
    assert json.loads(found) == []
    assert page.complaints == []
