"""What was made, on the page: looked at, asked for again, compared, downloaded, deleted, paged."""

import json
import os
import subprocess
import sys

import httpx
import pytest
from playwright.sync_api import expect

from tests.e2e.shared.conftest import NEEDS_CHROMIUM
from tests.e2e.shared.form import ask, card, job_of, made, prompt_of

pytestmark = [pytest.mark.e2e, NEEDS_CHROMIUM]


def test_an_image_is_looked_at_downloaded_and_asked_for_again(page, http):
    ask(page, "a red star to look at", steps=3, seed=11, guidance=3.5)
    made(page, "a red star to look at").click()
    box = page.get_by_role("dialog")
    expect(box.get_by_role("img")).to_have_js_property("naturalWidth", 64)
    for fact in ("11", "3.5", "shapes-xl@0", "64 \N{MULTIPLICATION SIGN} 64"):
        expect(box.get_by_text(fact, exact=True)).to_be_visible()
    with page.expect_download() as download:
        box.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename.endswith(".png")
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    prompt_of(page).fill("something else")
    box.get_by_role("button", name="Same seed").click()
    expect(box).not_to_be_visible()
    expect(prompt_of(page)).to_have_value("a red star to look at")
    expect(prompt_of(page)).to_be_focused()
    for name, value in (("seed", "11"), ("steps", "3"), ("guidance", "3.5")):
        expect(page.locator(f"[name={name}]")).to_have_value(value)
    first = job_of(http, "a red star to look at")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("listitem", name="a red star to look at")).to_have_count(2)
    made(page, "a red star to look at")
    again = job_of(http, "a red star to look at")
    assert again["id"] != first["id"]
    assert again["images"][0]["sha256"] == first["images"][0]["sha256"]


def test_an_image_of_another_origin_is_saved_or_shown_in_a_tab(browser, service):
    api, elsewhere = service.addresses.api, "http://images.test"
    cors = {"Access-Control-Allow-Origin": "*"}

    def rewritten(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace(f"{api}/files", elsewhere))

    def image(route):
        kept = route.request.url.replace(elsewhere, f"{api}/files")
        route.fulfill(body=httpx.get(kept).content, content_type="image/png", headers=cors)

    with browser.new_context(bypass_csp=True) as context:
        context.route(f"{elsewhere}/**", image)
        page = context.new_page()
        page.goto(api)
        ask(page, "a red ring of another origin", steps=2)
        made(page, "a red ring of another origin")
        page.route("**/v1/jobs?*", rewritten)
        page.reload()
        made(page, "a red ring of another origin").click()
        link = page.get_by_role("link", name="Download")
        with page.expect_download() as download:
            link.click()
        assert download.value.path().read_bytes().startswith(b"\x89PNG")
        cors["Access-Control-Allow-Origin"] = elsewhere
        with context.expect_page() as tab:
            link.click()
        assert tab.value.url.startswith(elsewhere)


def test_settings_that_are_copied_make_the_same_image(page, http):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, "a yellow star to copy", steps=2, seed=3)
    made(page, "a yellow star to copy").click()
    page.get_by_role("button", name="Copy settings").click()
    expect(page.locator(".toast")).to_have_text("Seed and settings copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    first = job_of(http, "a yellow star to copy")
    again = http.post("/v1/jobs", content=copied, headers={"Content-Type": "application/json"})
    url = again.raise_for_status().json()["urls"]["self"]
    ended = http.get(url, params={"wait": 25}).json()
    assert ended["images"][0]["sha256"] == first["images"][0]["sha256"]


def test_a_remix_has_all_but_the_seed(page):
    ask(page, "a blue circle to remix", steps=2, seed=5, n=2)
    made(page, "a blue circle to remix").click()
    page.get_by_role("button", name="Remix", exact=True).click()
    expect(prompt_of(page)).to_have_value("a blue circle to remix")
    expect(page.locator("[name=n]")).to_have_value("2")
    expect(page.locator("[name=seed]")).to_have_value("")


def test_two_images_are_compared_and_arrows_go_from_one_to_the_next(page):
    ask(page, "a green circle to compare", steps=2, seed=21, n=2)
    made(page, "a green circle to compare").click()
    box = page.get_by_role("dialog")
    expect(box.get_by_text("21", exact=True)).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(box.get_by_text("22", exact=True)).to_be_visible()
    box.get_by_role("button", name="Compare").click()
    card(page, "a green circle to compare").get_by_role("button", name="image 1 of").click()
    expect(box.get_by_text("21", exact=True)).to_be_visible()
    expect(box.get_by_text("22", exact=True)).to_be_visible()
    over = box.locator(".over")
    box.get_by_role("slider").fill("20")
    assert "80%" in over.evaluate("image => getComputedStyle(image).clipPath")
    page.keyboard.press("Escape")
    expect(box).not_to_be_visible()


def test_a_job_is_deleted_after_a_question(page, http):
    ask(page, "a circle to delete", steps=2)
    made(page, "a circle to delete").click()
    url = job_of(http, "a circle to delete")["images"][0]["url"]
    delete = page.get_by_role("dialog", name="Image").get_by_role("button", name="Delete")
    question = page.get_by_role("dialog", name="Delete for good?")
    delete.click()
    question.get_by_role("button", name="Keep it").click()
    delete.click()
    question.get_by_role("button", name="Delete").click()
    expect(card(page, "a circle to delete")).to_have_count(0)
    assert http.get(url).status_code in (403, 404)


def test_keys_pressed_in_the_question_do_not_change_what_is_deleted(page):
    for prompt in ("a circle to keep", "a circle to be gone"):
        ask(page, prompt, steps=2)
        made(page, prompt)
    made(page, "a circle to be gone").click()
    page.get_by_role("dialog", name="Image").get_by_role("button", name="Delete").click()
    page.keyboard.press("ArrowRight")
    question = page.get_by_role("dialog", name="Delete for good?")
    question.get_by_role("button", name="Delete").click()
    expect(card(page, "a circle to be gone")).to_have_count(0)
    expect(card(page, "a circle to keep")).to_have_count(1)


def test_more_of_the_gallery_comes_as_its_end_is_neared(page, http):
    one = http.get("/v1/jobs", params={"limit": 1}).json()["data"][0]
    listed = [{**one, "id": f"{at:032x}", "prompt": f"job {at}", "images": []} for at in range(60)]
    for at, job in enumerate(listed):
        job |= {"status": "canceled", "created_at": 1000.0 - at}

    def answer(route):
        first = int(route.request.url.partition("cursor=")[2] or 0)
        data = [] if "status=" in route.request.url else listed[first : first + 24]
        cursor = str(first + 24) if data and first + 24 < len(listed) else None
        route.fulfill(json={"object": "list", "data": data, "cursor": cursor})

    page.route("**/v1/jobs?*", answer)
    page.reload()
    jobs = page.locator(".job")
    expect(jobs).to_have_count(24)
    page.mouse.wheel(0, 10_000)
    expect(jobs).to_have_count(48)
    page.mouse.wheel(0, 10_000)
    expect(jobs).to_have_count(60)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)


def test_a_job_whose_stream_is_refused_is_not_asked_for_without_a_pause(page, http):
    one = http.get("/v1/jobs", params={"limit": 1}).json()["data"][0]
    job = {**one, "id": "f" * 32, "prompt": "not for this key", "status": "queued", "images": []}
    refused = []

    def refuse(route):
        refused.append(route.request.url)
        route.fulfill(status=403, json={"title": "No", "status": 403})

    page.route("**/v1/jobs?*", lambda route: route.fulfill(json={"data": [job], "cursor": None}))
    page.route(f"**/v1/jobs/{job['id']}", lambda route: route.fulfill(json=job))
    page.route(f"**/v1/jobs/{job['id']}/events?*", refuse)
    page.reload()
    expect(card(page, "not for this key")).to_have_count(1)
    page.wait_for_timeout(3000)
    assert len(refused) == 1


def test_a_hidden_tab_holds_no_stream(page, http):
    one = http.get("/v1/jobs", params={"limit": 1}).json()["data"][0]
    job = {**one, "id": "e" * 32, "prompt": "made behind", "status": "queued", "images": []}
    events = f"**/v1/jobs/{job['id']}/events?*"
    page.route("**/v1/jobs?*", lambda route: route.fulfill(json={"data": [job], "cursor": None}))
    page.route(f"**/v1/jobs/{job['id']}", lambda route: route.fulfill(json=job))
    page.route(events, lambda _: None)  # it tells nothing, and never ends
    with page.expect_request(events):
        page.reload()
    with page.expect_request(events):  # anew, as the first was given up
        page.evaluate(
            """for (const hidden of [true, false]) {
                Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )


def test_an_image_that_is_looked_at_an_hour_later_has_a_url_that_works(page, http):
    ask(page, "a circle of this morning", steps=2)
    image = made(page, "a circle of this morning")
    job = job_of(http, "a circle of this morning")
    page.clock.set_fixed_time(1000 * (job["images"][0]["expires_at"] + 60))
    with page.expect_response(f"**/v1/jobs/{job['id']}") as read:
        image.click()
    assert read.value.ok


@pytest.mark.long
@pytest.mark.parametrize("language", ["curl", "Python"])
def test_the_code_for_a_request_makes_it(page, http, tmp_path, language):
    prompt = f'it\'s a "$HOME" `star` \\ from {language}'
    page.get_by_text("More settings").click()
    page.locator("[name=steps]").fill("2")
    prompt_of(page).fill(prompt)
    page.get_by_role("button", name="Code for this request").click()
    page.get_by_role("dialog").get_by_text(language, exact=True).click()
    code = page.get_by_label("Code", exact=True).inner_text()
    command = ["bash", "-c", code] if language == "curl" else [sys.executable, "-c", code]
    environment = {**os.environ, "HOME": str(tmp_path)}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90
    )
    assert ended.returncode == 0, ended.stderr
    assert job_of(http, prompt)["steps"] == 2
    if language == "curl":
        assert json.loads(ended.stdout)["prompt"] == prompt
    else:
        assert [path.suffix for path in tmp_path.iterdir()] == [".png"]
