"""How the page looks: at each size, dark and light; and pictures of it for docs."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.shared.accessibility import (
    PHONE,
    at_each_size,
    faults,
    is_as_wide_as_its_window,
    show_as,
)
from tests.e2e.shared.conftest import NEEDS_CHROMIUM
from tests.e2e.shared.form import ask, card, drag, made

pytestmark = [pytest.mark.e2e, NEEDS_CHROMIUM]


def everything(page: Page) -> None:
    """Bring all that the form can show into sight, and something that was made."""
    if not page.locator(".thumbnail").count():
        ask(page, "a large blue star above a small green square", steps=4, n=3)
        made(page, "a large blue star above a small green square")
    if not page.locator("[name=steps]").is_visible():
        page.get_by_text("More settings").click()
    page.get_by_text("LoRAs and ControlNets").click()
    page.get_by_role("button", name="Add a ControlNet").click()
    page.locator(".thumbnail").first.click()
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(page.get_by_role("button", name="Paint a mask")).to_be_visible()


@at_each_size(PHONE, "dark")
def test_everybody_can_use_form_gallery_lightbox_masks_and_code(page, width, scheme):
    show_as(page, width, scheme)
    everything(page)
    assert faults(page) == []
    assert is_as_wide_as_its_window(page)
    assert page.locator(".composer").evaluate("form => form.scrollWidth <= form.clientWidth")
    for name in ("Paint a mask", "Code for this request"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert faults(page) == []
        page.keyboard.press("Escape")
    page.locator(".thumbnail").first.click()
    assert faults(page) == []
    assert is_as_wide_as_its_window(page)
    image, words = (
        page.locator(f".lightbox {each}").bounding_box() for each in ("img", ".lightbox-prompt")
    )
    assert image["x"] + image["width"] <= words["x"] or image["y"] + image["height"] <= words["y"]


def test_the_theme_is_chosen_and_kept(page):
    button = page.get_by_role("button", name="Colours")
    shown = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(shown)
    button.click()
    button.click()
    dark = page.evaluate(shown)
    assert dark != light
    page.reload()
    assert page.evaluate(shown) == dark


@pytest.mark.long
def test_pictures_for_the_docs(page, take):
    prompts = (
        ("a large blue star above a small green square", 3),
        ("a red circle left of a yellow triangle", 1),
        ("a small green star below a large red square", 1),
        ("a large yellow circle", 4),
        ("a blue triangle above a red star", 1),
    )
    for prompt, n in prompts:
        ask(page, prompt, steps=30, n=n)
        made(page, prompt)
    page.locator("[name=n]").fill("1")
    page.locator("[name=steps]").fill("300")
    running = "a large red star right of a small blue circle"
    ask(page, running)
    expect(card(page, running).locator(".preview")).to_be_visible()
    page.wait_for_timeout(300)  # until it has faded in; a fast machine ends soon after
    take(page, "page-make")
    made(page, running)
    made(page, "a blue triangle above a red star").click()
    page.wait_for_timeout(300)
    take(page, "page-image")
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(page.locator(".toast")).to_have_text("The image is in the form")
    expect(page.locator(".toast")).to_have_attribute("data-shown", "false")
    page.get_by_role("button", name="Paint a mask").click()
    canvas = page.locator(".mask canvas")
    canvas.hover()
    drag(page, canvas, (0.35, 0.3), (0.6, 0.25), (0.4, 0.4), (0.62, 0.42))
    take(page, "page-mask")
    page.get_by_role("button", name="Use this mask").click()
    expect(page.locator(".chosen-mask")).to_be_visible()
    show_as(page, 390, "dark")
    page.evaluate("scrollTo(0, 0)")
    take(page, "page-phone")
