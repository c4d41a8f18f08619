"""The page of a service that asks for keys: a small one beside the one that is shared."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, Route, expect

from cli.stack.running import running
from core.model import Model
from tests.e2e.shared.accessibility import faults
from tests.e2e.shared.conftest import NEEDS_CHROMIUM
from tests.e2e.shared.form import ask, card, choose, made, prompt_of
from tests.rig import save_model

pytestmark = [pytest.mark.e2e, pytest.mark.long, NEEDS_CHROMIUM]

KEY = "a tenant's own long random key"
OTHERS = "another tenant's own long random key"
OPERATORS = "an operator's own long random key"
ASKED = "This service asks for a key"


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("keyed")
    save_model(folder / "models", Model(name="quick", family="paced", load_s=0.1, step_s=0.05))
    env = {
        "ATELIER_MODELS_DIR": str(folder / "models"),
        "ATELIER_SCORE_SHARE": "0",
        "ATELIER_API_KEYS": json.dumps({KEY: "acme", OTHERS: "initech"}),
        "ATELIER_OPERATOR_KEYS": json.dumps([OPERATORS]),
    }
    with running(folder / "data", env=env) as service:
        yield service.addresses.api


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        yield page


@pytest.fixture
def photo(tmp_path) -> Path:
    path = tmp_path / "photo.png"
    Image.new("RGB", (64, 64), "red").save(path)
    return path


def give(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")


def test_the_page_asks_for_the_key_keeps_it_for_the_tab_and_forgets_it(page):
    expect(page.get_by_role("heading", name=ASKED)).to_be_visible()
    assert faults(page) == []
    give(page, "a wrong key")
    expect(page.get_by_text("nobody has this key")).to_be_visible()
    give(page, KEY)
    ask(page, "a red circle by its tenant", steps=2)
    made(page, "a red circle by its tenant")
    page.reload()
    made(page, "a red circle by its tenant")
    page.get_by_role("button", name="Code for this request").click()
    code = page.get_by_label("Code", exact=True)
    expect(code).to_contain_text("Bearer $ATELIER_API_KEY")
    expect(code).not_to_contain_text(KEY)
    page.keyboard.press("Escape")
    assert page.evaluate("localStorage.getItem('key')") is None
    page.get_by_role("button", name="Forget the key").click()
    page.reload()
    expect(page.get_by_role("heading", name=ASKED)).to_be_visible()
    expect(page.get_by_text("a red circle by its tenant")).to_have_count(0)


def test_the_form_goes_with_a_key_that_is_forgotten(page, photo):
    give(page, KEY)
    prompt_of(page).fill("nobody else's words")
    choose(page, "Start from a picture", photo)
    picture = page.get_by_role("region", name="Picture to start from")
    expect(picture).to_be_visible()
    page.reload()
    expect(prompt_of(page)).to_have_value("nobody else's words")
    choose(page, "Start from a picture", photo)
    expect(picture).to_be_visible()
    page.get_by_role("button", name="Forget the key").click()
    expect(page.get_by_role("heading", name=ASKED)).to_be_visible()
    assert "words" not in (page.evaluate("sessionStorage.getItem('draft')") or "")
    give(page, OTHERS)
    expect(prompt_of(page)).to_have_value("")
    expect(picture).to_have_count(0)


def test_a_picture_is_uploaded_again_with_the_key_that_follows_a_refused_one(page, photo):
    uploads: list[str] = []

    def keep(route: Route) -> None:
        uploads.append(route.request.headers["authorization"])
        route.fulfill(status=201, json={"id": "f" * 32})

    page.route("**/v1/templates", keep)
    page.route("**/v1/jobs", lambda route: route.fulfill(status=401, json={"title": "No"}))
    give(page, KEY)
    choose(page, "Start from a picture", photo)
    for key in (KEY, OTHERS):
        expect(page.get_by_role("region", name="Picture to start from")).to_be_visible()
        prompt_of(page).fill("a star in the place of the square")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("heading", name=ASKED)).to_be_visible()
        assert uploads.pop() == f"Bearer {key}"
        give(page, OTHERS)
    assert uploads == []


def test_a_list_that_was_asked_for_with_a_forgotten_key_is_not_shown(page):
    give(page, KEY)
    ask(page, "a circle of the key before", steps=2)
    made(page, "a circle of the key before")
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.headers.get("authorization") == f"Bearer {KEY}":
            held.append(route)
        else:
            route.continue_()

    page.route("**/v1/jobs?*", hold)
    page.reload()
    while len(held) < 3:  # the newest, and those that wait and run
        page.wait_for_timeout(50)
    page.get_by_role("button", name="Forget the key").click()
    give(page, OTHERS)
    expect(page.get_by_text("Your images appear here")).to_be_visible()
    for route in held:
        with page.expect_response(route.request.url):
            route.continue_()
    page.wait_for_timeout(200)
    expect(page.get_by_text("a circle of the key before")).to_have_count(0)


def test_a_late_answer_to_what_was_sent_without_a_key_hides_nothing(browser, address):
    with browser.new_context() as context:
        page, held = context.new_page(), []

        def hold(route: Route) -> None:
            if held or "authorization" in route.request.headers:
                route.continue_()
            else:
                held.append(route)

        page.route("**/v1/**", hold)
        page.goto(address)
        give(page, KEY)
        expect(page.get_by_text("More settings")).to_be_visible()
        with page.expect_response(lambda response: response.status == 401):
            held[0].continue_()
        page.wait_for_timeout(200)
        expect(page.get_by_text("More settings")).to_be_visible()


def test_a_key_that_an_operator_makes_works_on_the_page_until_it_is_revoked(page, browser, address):
    give(page, OPERATORS)
    page.evaluate("location.hash = '#/models/keys'")
    page.get_by_role("button", name="Make a key").click()
    page.get_by_role("textbox", name="Tenant").fill("umbrella")
    page.get_by_role("button", name="Make it").click()
    secret = page.get_by_label("The key", exact=True).inner_text()
    page.get_by_role("button", name="I have it").click()
    with browser.new_context() as context:
        theirs = context.new_page()
        theirs.goto(address)
        give(theirs, secret)
        ask(theirs, "a star of another tenant", steps=100)  # five seconds, to be seen
        progress = card(theirs, "a star of another tenant").get_by_role("progressbar")
        expect(progress).to_have_attribute("max", "100")
        made(theirs, "a star of another tenant")
        theirs.evaluate("location.hash = '#/fleet'")
        expect(theirs.get_by_role("heading", name="This is for operators")).to_be_visible()
        page.get_by_role("button", name="Revoke the key").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.locator(".toast")).to_have_text("The key works no more")
        theirs.evaluate("location.hash = '#/make'")
        expect(theirs.get_by_role("heading", name=ASKED)).to_be_visible()
    page.evaluate("location.hash = '#/fleet'")
    expect(page.get_by_role("table").filter(has_text="Worker")).to_contain_text("quick")
