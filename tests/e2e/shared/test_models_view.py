"""The view "Models", in a real browser: what is served and kept, tenants and keys."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.shared.accessibility import (
    DESK,
    at_each_size,
    faults,
    is_as_wide_as_its_window,
    show_as,
)
from tests.e2e.shared.conftest import NEEDS_CHROMIUM

pytestmark = [pytest.mark.e2e, NEEDS_CHROMIUM]

LORA = Path(__file__).parents[3] / "zoo" / "adapters" / "loras" / "night.safetensors"
SECTIONS = ["Models", "LoRAs", "ControlNets", "Embeddings", "IP-Adapters"]

MADE = {
    "id": "k1",
    "object": "key",
    "tenant": "acme",
    "scopes": ["read", "submit"],
    "name": "website",
    "status": "active",
    "created_at": 1_700_000_000.0,
    "expires_at": None,
    "revoked_at": None,
    "replaces": None,
}
SECRET = "atelier_secret"


def see(page: Page, section: str) -> None:
    page.evaluate(f"location.hash = '#/models/{section}'")


class Keys:
    """Keys of a service that asks for them, behind the routes of this page."""

    def __init__(self, page: Page) -> None:
        self.keys: list[dict[str, object]] = []
        self.asked: list[object] = []
        page.route(re.compile(r"/v1/keys(/|$)"), self.answer)

    def answer(self, route: Route) -> None:
        request = route.request
        path = request.url.partition("/v1/keys")[2]
        if request.method == "POST":
            self.asked.append(json.loads(request.post_data) if request.post_data else path)
            new = MADE | {"id": f"k{len(self.keys) + 1}"}
            self.keys.insert(0, new)
            route.fulfill(status=201, json=new | {"key": SECRET})
        elif request.method == "DELETE":
            (ended,) = (each for each in self.keys if path == f"/{each['id']}")
            ended["status"] = "revoked"
            route.fulfill(json=ended)
        else:
            route.fulfill(json={"object": "list", "data": self.keys})


def test_models_say_what_they_are_and_where_they_stand(page):
    see(page, "models")
    card = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="shapes-xl"))
    expect(card.locator(".tag")).to_have_text(re.compile("worker|loaded"))
    expect(card).to_contain_text(re.compile(r"Family.?sdxl", re.S))
    card.get_by_text("What it makes").click()
    expect(card).to_contain_text("StableDiffusionXLPipeline")
    expect(page.get_by_role("navigation", name="Parts").get_by_role("link")).to_have_text(SECTIONS)


def test_a_model_is_looked_at_before_it_is_added(page, tmp_path):
    see(page, "models")
    page.get_by_role("button", name="Add a model").click()
    dialog = page.get_by_role("dialog")
    path = dialog.get_by_label("Path on the disk")
    path.fill(str(tmp_path / "nothing"))
    dialog.get_by_role("button", name="Look at it").click()
    expect(path).to_have_attribute("aria-invalid", "true")
    path.fill(str(LORA.parents[2] / "weights" / "shapes-tiny"))
    dialog.get_by_role("button", name="Look at it").click()
    expect(dialog).to_contain_text("It would be served as shapes-tiny")
    expect(dialog.get_by_role("button", name="Add it")).to_be_enabled()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Add a model")).to_be_focused()
    expect(page.get_by_role("heading", name="shapes-tiny")).to_have_count(0)


def test_a_lora_is_uploaded_listed_and_deleted(page):
    see(page, "loras")
    page.get_by_label("File of the LoRA").set_input_files(LORA)
    row = page.get_by_role("row").filter(has_text="shapes-xl")
    expect(row).to_contain_text("KiB")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Nothing is kept")).to_be_visible()


def test_a_file_that_is_no_lora_is_refused_with_the_reason(page, tmp_path):
    wrong = tmp_path / "wrong.safetensors"
    wrong.write_bytes(b"no weights")
    see(page, "loras")
    page.get_by_label("File of the LoRA").set_input_files(wrong)
    expect(page.get_by_role("alert")).to_be_visible()


def test_keys_are_shown_once_rotated_and_revoked(page):
    keys = Keys(page)
    see(page, "keys")
    page.get_by_role("button", name="Make a key").click()
    page.get_by_role("textbox", name="Tenant").fill("acme")
    page.get_by_label("operate").check()
    page.get_by_label("Expires").select_option("After 30 days")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_label("The key", exact=True)).to_have_text(SECRET)
    page.get_by_role("button", name="I have it").click()
    expect(page.get_by_text(SECRET)).to_have_count(0)
    page.get_by_role("button", name="Rotate").click()
    page.get_by_label("The old key works on").select_option("For an hour")
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    page.get_by_role("button", name="I have it").click()
    page.get_by_role("button", name="Revoke").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_label("Show 1 that works no more").check()
    expect(page.get_by_role("row").filter(has_text="revoked")).to_have_count(1)
    asked, rotated = keys.asked
    assert asked == {
        "tenant": "acme",
        "name": "",
        "scopes": ["submit", "read", "operate"],
        "expires_in_s": 30 * 86400,
    }
    assert rotated == "/k1/rotate?overlap_s=3600"


def test_a_key_is_made_once_though_the_button_is_pressed_twice(page):
    keys = Keys(page)
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == "POST":
            held.append(route)
        else:
            route.fallback()

    def press_twice(name: str) -> None:
        button = page.get_by_role("dialog").get_by_role("button", name=name)
        button.dblclick()
        expect(button).to_be_disabled()
        while not held:
            page.wait_for_timeout(50)
        keys.answer(held.pop())
        page.get_by_role("button", name="I have it").click()

    page.route(re.compile(r"/v1/keys(/|$)"), hold)
    see(page, "keys")
    page.get_by_role("button", name="Make a key").click()
    page.get_by_role("textbox", name="Tenant").fill("acme")
    press_twice("Make it")
    page.get_by_role("button", name="Rotate").click()
    press_twice("Rotate")
    assert len(keys.asked) == 2
    assert not held


def test_limits_of_a_tenant_are_changed_and_its_usage_is_told(page):
    Keys(page)
    limits = dict.fromkeys(("jobs_per_s", "burst", "open_jobs", "images_a_day", "kept_bytes"))
    tenant = {"name": "acme", "object": "tenant", "weight": 1.0, "limits": limits, "own": []}
    said: list[object] = []

    def answer(route: Route) -> None:
        if route.request.method == "PATCH":
            said.append(route.request.post_data_json)
            tenant.update(limits=limits | {"kept_bytes": 2 * 2**30}, own=["kept_bytes"])
            route.fulfill(json=tenant)
        else:
            route.fulfill(json={"object": "list", "data": [tenant]})

    used = {
        "images": 1234,
        "jobs": {"succeeded": 1000, "failed": 2, "canceled": 3, "expired": 4},
        "device_seconds": {"cpu": 7200.0},
        "gpu_seconds": 7200.0,
        "cost": 1.25,
    }
    usage = {"tenant": "acme", "start": "2026-11-01", "end": "2026-11-30", "total": used}
    usage |= {"object": "usage", "kept_bytes": 2**30, "open_jobs": 5, "data": []}
    page.route(re.compile("/v1/tenants"), answer)
    page.route(re.compile("/v1/usage"), lambda route: route.fulfill(json=usage))
    see(page, "tenants")
    used_row = page.get_by_role("region", name="Usage").get_by_role("row", name="acme")
    expect(used_row.get_by_role("cell")).to_have_text(["1,234", "9", "2 h", "1.25", "5", "1 GiB"])
    page.get_by_role("button", name="Change acme").click()
    page.get_by_label("Jobs a second").press_sequentially("0.05")
    page.get_by_label("Kept. GiB").fill("2")
    page.get_by_role("button", name="Save").click()
    row = page.get_by_role("region", name="Tenants").get_by_role("row", name="acme")
    expect(row.locator("b")).to_have_text("2 GiB")
    own = {"weight": None, "jobs_per_s": 0.05, "kept_bytes": 2 * 2**30}
    assert said == [limits | own]


def test_who_is_no_operator_sees_no_actions_of_operators(page):
    problem = {"type": "urn:problem-type:atelier:missing-scope", "status": 403, "title": "No"}
    page.route("**/v1/keys", lambda route: route.fulfill(status=403, json=problem))
    see(page, "models")
    expect(page.get_by_role("heading", name="shapes-xl")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Add|Remove"))).to_have_count(0)
    expect(page.get_by_role("navigation", name="Parts").get_by_role("link")).to_have_text(SECTIONS)
    see(page, "keys")
    expect(page.get_by_text("keys with the scope operate")).to_be_visible()


@at_each_size(DESK, "light")
def test_everybody_can_use_the_view(page, width, scheme):
    Keys(page).keys.append(MADE)
    show_as(page, width, scheme)
    for section, shown in {"models": "What it makes", "controlnets": "edges", "keys": "k1"}.items():
        see(page, section)
        expect(page.get_by_text(shown).first).to_be_visible()
        assert faults(page) == [], section
        assert is_as_wide_as_its_window(page), section
    page.get_by_role("button", name="Make a key").click()
    assert faults(page) == []
