"""The form of the page and what comes of it, as tests use them."""

from pathlib import Path

from playwright.sync_api import Locator, Page, expect


def prompt_of(page: Page) -> Locator:
    return page.get_by_label("Prompt", exact=True)


def ask(page: Page, prompt: str, **fields: object) -> None:
    """Fill in the form and send it by keyboard."""
    if fields and not page.locator("[name=steps]").is_visible():
        page.get_by_text("More settings").click()
    for name, value in fields.items():
        page.locator(f"[name={name}]").fill(str(value))
    prompt_of(page).fill(prompt)
    page.keyboard.press("Control+Enter")


def card(page: Page, prompt: str) -> Locator:
    """Find the newest job of a prompt."""
    return page.get_by_role("listitem", name=prompt, exact=True).first


def made(page: Page, prompt: str) -> Locator:
    """Wait for the newest job of a prompt; return the first image of it."""
    image = card(page, prompt).locator(".thumbnail").first
    expect(image.locator("img")).to_have_js_property("complete", True)
    return image


def choose(page: Page, label: str, path: Path) -> None:
    """Give a file to the place for a picture."""
    page.get_by_label(label).set_input_files(path)


def drag(page: Page, canvas: Locator, *points: tuple[float, float]) -> None:
    """Draw a line over a canvas, through points as shares of its sides."""
    box = canvas.bounding_box()
    assert box is not None
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def job_of(http, prompt: str) -> dict:
    """Read the newest job of a prompt from the service itself."""
    jobs = http.get("/v1/jobs", params={"limit": 20}).json()["data"]
    return next(job for job in jobs if job["prompt"] == prompt)
