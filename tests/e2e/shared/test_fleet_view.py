"""The operators' view "Fleet", in a real browser over the real service."""

import math
import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.shared.accessibility import (
    DESK,
    at_each_size,
    faults,
    is_as_wide_as_its_window,
    show_as,
)
from tests.e2e.shared.conftest import NEEDS_CHROMIUM

pytestmark = [pytest.mark.e2e, NEEDS_CHROMIUM]

NOW = 1_700_000_000.0


def a_period(number: int, **said: object) -> dict[str, object]:
    counted = dict.fromkeys(
        ("accepted", "succeeded", "failed", "canceled", "late", "redelivered", "buried"), 0
    )
    return {
        "ended_at": NOW + 30 * number,
        "seconds": 30.0,
        **counted,
        "images": {},
        "p50_s": None,
        "p95_s": None,
        "quality": None,
        "scored": 0,
        "queued": 0,
        "oldest_s": 0.0,
        "busy": 0,
        "running": 0,
        "slots": 8,
        "devices": {"cpu": 1},
        "cost": None,
        "forecast": 0.5,
        "saturation": 0.0,
        **said,
    }


#: One period without a job, then one with sixty of them.
HOUR = [
    a_period(0),
    a_period(
        1,
        accepted=60,
        succeeded=45,
        failed=5,
        late=10,
        images={"shapes-xl@0": 30, "shapes-xl@10": 15},
        p50_s=1.5,
        p95_s=4.25,
        quality=0.8,
        scored=2,
        queued=7,
    ),
]


def see(page: Page, hour: list[dict[str, object]]) -> None:
    """Open the view with an hour of this test."""
    answer = {"object": "history", "data": hour}
    page.route("**/v1/history", lambda route: route.fulfill(json=answer))
    page.evaluate("location.hash = '#/fleet'")
    expect(page.get_by_role("heading", name="The last hour")).to_be_visible()
    expect(page.get_by_role("heading", name="Plan")).to_be_visible()


def test_operators_see_workers_plan_demand_and_queues(page):
    page.evaluate("location.hash = '#/fleet'")
    workers = page.get_by_role("table").filter(has_text="Worker")
    row = workers.get_by_role("row", name=re.compile("worker-1@"))
    expect(row).to_contain_text("shapes-xl")
    expect(row).to_contain_text(re.compile(r"\d of 8"))
    expect(page.get_by_role("region", name="Plan")).to_contain_text("shapes-xl@0")
    expect(page.get_by_role("region", name="Demand")).to_contain_text("default")
    expect(page.get_by_role("region", name="Queues")).to_contain_text("Nothing waits")


def test_the_last_hour_is_drawn_and_can_be_read(page):
    see(page, HOUR)
    latency = page.get_by_role("figure", name="Latency")
    expect(latency.get_by_role("listitem")).to_have_text(["p50 1.5 s", "p95 4.3 s"])
    expect(latency.locator("circle")).to_have_count(2)  # one moment each: no line
    latency.get_by_text("As a table").click()
    rows = latency.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("4.3 s")
    expect(rows.nth(2)).to_contain_text("\u2013")
    levels = page.get_by_role("figure", name="Levels").get_by_role("listitem")
    expect(levels).to_have_text(["shapes-xl@0 67 %", "shapes-xl@10 33 %"])
    figures = {
        "Jobs a second": "1/s",
        "Latency, p95": "4.3 s",
        "Quality": "0.80",
        "Late or failed": "20 %",
        "Device time": "60 s",
    }
    for name, value in figures.items():
        shown = page.locator(".figure").filter(has=page.get_by_text(name, exact=True))
        expect(shown.locator("b")).to_have_text(value)


def test_where_prices_are_known_the_hour_has_a_cost(page):
    see(page, [{**each, "cost": 0.25} for each in HOUR])
    shown = page.locator(".figure").filter(has=page.get_by_text("Cost of the hour", exact=True))
    expect(shown.locator("b")).to_have_text("0.50")
    expect(shown).to_contain_text("0.01 a job; 60 s of devices")


@pytest.mark.long
def test_a_picture_of_it_for_the_docs(page, take):
    """With an hour of this test: two waves of jobs, the second too high for the best level."""
    waves = [0.55 - 0.45 * math.cos(number / 119 * 4 * math.pi) for number in range(120)]
    hour = []
    for number, wave in enumerate(waves):
        load = wave * (1 + number / 119) / 2
        made = round(50 * load + 4 * math.sin(number * 1.7)) + 6
        less = round(made * max(0.0, load - 0.35))
        hour.append(
            a_period(
                number,
                accepted=made,
                succeeded=made,
                late=made * (load > 0.9) // 12,
                images={
                    "shapes-xl@0": made - less,
                    "shapes-xl@15": less // 2,
                    "shapes-m@0": less - less // 2,
                },
                p50_s=1.2 + 1.5 * load,
                p95_s=1.9 + 3.4 * load**2,
                quality=0.97 - 0.09 * max(0.0, load - 0.35),
                scored=2,
                queued=round(max(0.0, load - 0.6) * 20),
                busy=1,
                running=min(8, round(8 * load)),
                cost=0.0125,
                forecast=(50 * load + 8) / 30,
            )
        )
    see(page, hour)
    expect(page.get_by_role("figure", name="Jobs")).to_be_visible()
    take(page, "page-fleet")


@pytest.mark.long
def test_whoever_holds_the_view_still_asks_no_more(page):
    see(page, HOUR)
    with page.expect_request("**/v1/models"):  # the last that it asks once more as it is held
        page.get_by_role("button", name="Hold still").click()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(4000)
    assert asked == []
    with page.expect_request("**/v1/fleet"):
        page.get_by_role("button", name="Look now").click()
    expect(page.get_by_role("button", name="Follow again")).to_be_visible()


def test_a_key_that_is_no_operators_is_told_what_it_lacks(page):
    problem = {"type": "urn:problem-type:atelier:missing-scope", "status": 403, "title": "No"}
    page.route("**/v1/fleet", lambda route: route.fulfill(status=403, json=problem))
    page.evaluate("location.hash = '#/fleet'")
    expect(page.get_by_role("heading", name="This is for operators")).to_be_visible()


@at_each_size(DESK, "light")
def test_everybody_can_use_the_view(page, width, scheme):
    show_as(page, width, scheme)
    see(page, HOUR)
    page.get_by_text("As a table").first.click()
    assert faults(page) == []
    assert is_as_wide_as_its_window(page)
