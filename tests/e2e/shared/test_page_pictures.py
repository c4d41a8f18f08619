"""Pictures on the page: painted over, started from, kept to; and models changed by LoRAs."""

from base64 import b64encode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Route, expect

from tests.e2e.shared.conftest import NEEDS_CHROMIUM
from tests.e2e.shared.form import ask, choose, drag, job_of, made, prompt_of
from zoo.control.condition import Kind, view
from zoo.scenes import draw, held_out

ROOT = Path(__file__).parents[3]
LORA = ROOT / "zoo/adapters/loras/sepia.safetensors"

pytestmark = [pytest.mark.e2e, NEEDS_CHROMIUM]


@pytest.fixture
def photo(tmp_path):
    """A picture of a scene, larger than any model makes."""
    [scene] = held_out(1, 1, 2026)
    path = tmp_path / "photo.png"
    Image.fromarray(draw(scene)).resize((300, 300)).save(path)
    return path


def pixels(http, url):
    return np.asarray(Image.open(BytesIO(http.get(url).content)).convert("L"))


def paint(page):
    page.get_by_role("button", name="Paint a mask").click()
    canvas = page.locator(".mask canvas")
    canvas.hover()  # it has its size by then
    return canvas


def test_what_is_painted_is_made_anew_and_the_rest_is_kept(page, http, photo):
    choose(page, "Start from a picture", photo)
    canvas = paint(page)
    drag(page, canvas, (0.25, 0.25), (0.25, 0.6))
    page.get_by_role("button", name="Use this mask").click()
    ask(page, "a green square that is painted", steps=4)
    made(page, "a green square that is painted")
    job = job_of(http, "a green square that is painted")
    mask, template = pixels(http, job["mask"]), pixels(http, job["template"])
    image = pixels(http, job["images"][0]["url"])
    assert set(np.unique(mask)) == {0, 255}
    assert mask.shape == template.shape == image.shape == (128, 128)
    assert mask[54, 32] == 255 and mask[54, 100] == 0
    assert 0.05 < (mask == 255).mean() < 0.4
    change = np.abs(image.astype(int) - template)
    assert change[:, 96:].mean() < 3 < change[mask == 255].mean()


def covered(page):
    """Tell how much of the mask on the screen is opaque."""
    return page.locator(".mask canvas").evaluate(
        "async c => { const wait = () => new Promise(drawn => setTimeout(drawn, 60));"
        " await wait(); await wait();"  # a stall may have the first end before what it waits for
        " const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i] > 127;"
        " return n / (c.width * c.height); }"
    )


def test_a_mask_is_erased_inverted_undone_cleared_and_zoomed(page, photo):
    choose(page, "Start from a picture", photo)
    canvas = paint(page)
    drag(page, canvas, (0.5, 0.5), (0.5, 0.5))
    dot = covered(page)
    assert 0 < dot < 0.1
    page.keyboard.press("i")
    assert covered(page) == pytest.approx(1 - dot, abs=0.02)
    page.get_by_role("button", name="Eraser").click()
    drag(page, canvas, (0.1, 0.1), (0.9, 0.1))
    erased = covered(page)
    assert erased < 1 - dot - 0.05
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert covered(page) == dot
    page.keyboard.press("Control+y")
    assert covered(page) == pytest.approx(1 - dot, abs=0.02)
    page.get_by_role("button", name="Clear").click()
    assert covered(page) == 0
    width = canvas.bounding_box()["width"]
    page.get_by_role("button", name="Larger").click()
    assert canvas.bounding_box()["width"] > 1.3 * width
    page.keyboard.press("0")
    assert canvas.bounding_box()["width"] == pytest.approx(width, abs=1)


def test_a_mask_is_painted_by_keys_and_by_touch(page, photo):
    choose(page, "Start from a picture", photo)
    canvas = paint(page)
    canvas.focus()
    page.keyboard.press("b")
    page.keyboard.press(" ")
    dot = covered(page)
    assert 0 < dot < 0.1
    for _ in range(4):
        page.keyboard.press("Shift+ArrowRight")
    line = covered(page)
    assert line > 1.5 * dot
    touch = {"pointerType": "touch", "pointerId": 7, "isPrimary": True, "button": 0, "buttons": 1}
    box = canvas.bounding_box()
    for kind, share in (("down", 0.1), ("move", 0.5), ("up", 0.5)):
        place = {"clientX": box["x"] + share * box["width"], "clientY": box["y"] + 12}
        if kind == "down":
            canvas.evaluate("c => (c.setPointerCapture = () => {})")  # no finger is really there
        canvas.dispatch_event(f"pointer{kind}", {**touch, **place, "bubbles": True})
    assert covered(page) > line


def test_two_fingers_enlarge_a_mask_and_paint_nothing(page, photo):
    choose(page, "Start from a picture", photo)
    canvas = paint(page)
    box = canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    hand = page.context.new_cdp_session(page)
    for kind, apart in (("Start", 20), ("Move", 30), ("Move", 40), ("Move", 60), ("End", 0)):
        fingers = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        points = {"touchPoints": fingers if apart else []}
        hand.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", **points})
    assert covered(page) == 0
    assert canvas.bounding_box()["width"] == pytest.approx(3 * box["width"], rel=0.05)


def test_a_picture_is_pasted_and_fitted_to_what_models_make(page, photo):
    """Before the models are known, too."""
    held: list[Route] = []
    page.route("**/v1/models", lambda route: held.append(route))
    page.reload()
    expect(prompt_of(page)).to_be_visible()
    page.evaluate(
        """(data) => {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            const files = new DataTransfer();
            files.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
            dispatchEvent(new ClipboardEvent("paste", { clipboardData: files, bubbles: true }));
        }""",
        b64encode(photo.read_bytes()).decode(),
    )
    for route in held:
        route.continue_()
    expect(page.get_by_alt_text("pasted.png")).to_be_visible()
    expect(page.get_by_text("128 \N{MULTIPLICATION SIGN} 128")).to_be_visible()


def test_a_picture_is_dropped(page, photo):
    files = page.evaluate_handle(
        """(data) => {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            const files = new DataTransfer();
            files.items.add(new File([bytes], "dropped.png", { type: "image/png" }));
            return files;
        }""",
        b64encode(photo.read_bytes()).decode(),
    )
    place = page.locator(".drop").first
    place.dispatch_event("dragover", {"dataTransfer": files})
    expect(place).to_have_class("drop over")
    place.dispatch_event("drop", {"dataTransfer": files})
    expect(page.get_by_alt_text("dropped.png")).to_be_visible()


def test_a_file_that_is_no_picture_is_refused_where_it_was_given(page, tmp_path):
    (tmp_path / "words.png").write_text("no picture")
    choose(page, "Start from a picture", tmp_path / "words.png")
    expect(page.get_by_text("words.png is no picture that can be read here.")).to_be_visible()


@pytest.mark.long
def test_an_image_starts_from_a_picture(page, http, photo):
    choose(page, "Start from a picture", photo)
    page.get_by_text("Start from it").click()
    page.locator("[name=strength]").fill("0.5")
    ask(page, "a star that is begun", steps=4)
    made(page, "a star that is begun")
    job = job_of(http, "a star that is begun")
    assert (job["task"], job["strength"]) == ("generate", 0.5)
    assert job["image"] is not None


@pytest.mark.long
def test_an_image_keeps_to_the_picture_of_a_controlnet(page, http, tmp_path):
    [scene] = held_out(1, 1, 2026)
    Image.fromarray(view(Kind.EDGES, scene)).save(tmp_path / "edges.png")
    page.get_by_text("LoRAs and ControlNets").click()
    page.get_by_role("button", name="Add a ControlNet").click()
    page.get_by_label("Keeps to").select_option("edges")
    choose(page, "Its picture", tmp_path / "edges.png")
    ask(page, scene.caption, steps=8)
    made(page, scene.caption)
    [control] = job_of(http, scene.caption)["controls"]
    assert (control["id"], control["scale"]) == ("edges", 1.0)
    assert pixels(http, control["image"]).shape == (64, 64)


@pytest.mark.long
def test_a_lora_changes_the_image(page, http):
    headers = {"Content-Type": "application/octet-stream"}
    kept = http.post("/v1/loras", content=LORA.read_bytes(), headers=headers).json()["id"]
    page.reload()
    page.get_by_text("LoRAs and ControlNets").click()
    page.get_by_role("button", name=f"Add LoRA {kept[:8]}").click()
    ask(page, "a sepia circle", steps=4, seed=1)
    made(page, "a sepia circle")
    assert job_of(http, "a sepia circle")["loras"] == [{"id": kept, "scale": 1.0}]
    http.delete(f"/v1/loras/{kept}")


def test_a_refused_field_of_a_control_is_said_there(page):
    page.get_by_text("LoRAs and ControlNets").click()
    page.get_by_role("button", name="Add a ControlNet").click()
    ask(page, "a star without its picture")
    group = page.get_by_role("group", name="ControlNet 1")
    expect(group.locator(".fault")).to_be_visible()
    expect(prompt_of(page)).to_have_value("a star without its picture")
