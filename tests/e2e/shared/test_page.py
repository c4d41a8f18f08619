"""The page for people, in a real browser over the real service."""

import re

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.e2e.shared.conftest import NEEDS_CHROMIUM
from tests.e2e.shared.form import ask, card, prompt_of

pytestmark = [pytest.mark.e2e, NEEDS_CHROMIUM]


def test_a_prompt_becomes_an_image_and_the_focus_stays_for_the_next(page):
    ask(page, "a red circle on white", seed=7, steps=8)
    image = card(page, "a red circle on white").locator(".thumbnail img")
    expect(image).to_have_js_property("naturalWidth", 64)
    expect(prompt_of(page)).to_be_focused()


def posts(page: Page) -> list[str]:
    """List where the page posts to, from now on."""
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.method == "POST":
            asked.append(request.url)

    page.on("request", note)
    return asked


@pytest.mark.parametrize(("field", "keys"), [("prompt", ["Control", "Enter"]), ("n", ["Enter"])])
def test_keys_that_are_held_send_one_request(page, field, keys):
    asked = posts(page)
    prompt = f"a red star sent from {field}"
    prompt_of(page).fill(prompt)
    page.locator(f"[name={field}]").focus()
    for key in (*keys, "Enter", "Enter"):
        page.keyboard.down(key)
    for key in keys:
        page.keyboard.up(key)
    expect(card(page, prompt).locator(".thumbnail img")).to_be_visible()
    assert len(asked) == 1


def test_keys_pressed_in_a_dialog_send_nothing(page):
    asked = posts(page)
    prompt_of(page).fill("a red star that is not sent")
    page.get_by_role("button", name="Code for this request").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Python", exact=True).click()
    for key in ("Enter", "Control+Enter", "Escape"):
        page.keyboard.press(key)
    expect(dialog).not_to_be_visible()
    assert asked == []


def test_progress_and_previews_are_shown_until_it_is_canceled(page):
    ask(page, "a blue star to be canceled", steps=1000, n=2)
    made = card(page, "a blue star to be canceled")
    expect(made.get_by_role("progressbar")).to_have_attribute("max", "1000")
    expect(made.locator("img.preview")).to_have_count(2)
    cancel = made.get_by_role("button", name="Cancel")
    box = cancel.bounding_box()
    assert box["width"] == box["height"]
    cancel.click()
    expect(made).to_contain_text("Canceled")


def test_a_refusal_is_said_at_the_field_which_is_focused(page):
    ask(page, "a red circle", steps=10_000)
    field = page.locator("[name=steps]")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    said = page.locator(f"#{field.get_attribute('aria-describedby')}")
    expect(said).to_have_text(re.compile(r"\b1000\b"))
    field.fill("4")
    expect(field).not_to_have_attribute("aria-invalid", "true")


def test_several_jobs_are_made_at_once(page):
    prompts = [f"a {colour} star beside others" for colour in ("red", "green", "blue")]
    unseen, held = list(prompts), list[Route]()

    def hold(route: Route) -> None:
        if unseen:
            held.append(route)
        else:
            route.continue_()

    page.route(re.compile(r"/v1/jobs/\w"), hold)  # of none is heard that it is made
    for prompt in prompts:
        ask(page, prompt, steps=100)
    for prompt in prompts:
        expect(card(page, prompt).get_by_role("progressbar")).to_be_visible()
    unseen.clear()
    for route in held:
        route.continue_()
    for prompt in prompts:
        expect(card(page, prompt).locator(".thumbnail img")).to_be_visible()


def test_all_that_the_form_says_is_asked_for(page, http):
    http.post("/v1/applications", json={"name": "posters"}).raise_for_status()
    page.reload()
    said = {"negative_prompt": "circles", "n": 2, "width": 72, "height": 64, "steps": 3}
    said |= {"guidance": 2.5, "seed": 9, "deadline_s": 600}
    page.get_by_text("More settings").click()
    chosen = {"model": "shapes-xl", "quality": "exact", "scheduler": "ddim"}
    for name, value in (chosen | {"application": "posters"}).items():
        page.locator(f"[name={name}]").select_option(value)
    with page.expect_request(lambda each: each.method == "POST") as sent:
        ask(page, "a star of all settings", **said)
    asked = {"prompt": "a star of all settings", **said, **chosen, "application": "posters"}
    assert sent.value.post_data_json == asked
    expect(card(page, "a star of all settings").locator(".thumbnail img")).to_have_count(2)
    http.delete("/v1/applications/posters").raise_for_status()


def test_a_prompt_is_never_markup(page):
    prompt = "<img src=x onerror=document.title='owned'>"
    ask(page, prompt, steps=2)
    expect(card(page, prompt).locator(".thumbnail img")).to_be_visible()
    expect(page).to_have_title("Atelier")


def test_a_job_that_is_made_is_found_again_after_a_reload(page):
    ask(page, "a green square found again", steps=200, n=2)  # it is not made before the reload
    expect(card(page, "a green square found again")).to_be_visible()
    page.reload()
    made = card(page, "a green square found again")
    expect(made.locator("img.preview").first).to_be_visible()
    expect(made.locator("img:not(.preview)").first).to_be_visible()
