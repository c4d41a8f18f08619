import os
from collections.abc import Iterator

import pytest

from tests.e2e.shared.browser import BINARY, Page, browsing

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not BINARY.exists() and "CI" not in os.environ, reason="apt-get install chromium"
    ),
]


@pytest.fixture
def page(service, tmp_path) -> Iterator[Page]:
    with browsing(tmp_path / "profile") as page:
        page.open(service.addresses.api)
        yield page


def ask(page, prompt, **fields):
    values = {"prompt": prompt, **fields}
    for name, value in values.items():
        page.evaluate(f"document.getElementById({name!r}).value = {str(value)!r}")
    page.evaluate("document.getElementById('go').click()")


def text(page, name):
    return page.evaluate(f"document.getElementById({name!r}).textContent")


def test_a_prompt_typed_into_the_page_becomes_an_image_on_it(page, tmp_path):
    ask(page, "a red circle", seed=7)
    page.until("document.querySelector('#images img')?.naturalWidth === 64")
    assert text(page, "state").startswith("succeeded")
    page.until("document.querySelector('#recent img')?.naturalWidth === 64")
    page.save(tmp_path / "page.png")
    assert page.complaints == []


def test_progress_moves_while_the_image_is_made(page):
    ask(page, "a blue star", steps=60)
    page.until("document.getElementById('bar').value > 1")
    assert page.evaluate("document.getElementById('bar').max") == 60
    page.until("document.getElementById('state').textContent.startsWith('succeeded')")


def test_a_job_can_be_canceled_on_the_page(page):
    ask(page, "a blue star", steps=100, n=4)
    page.until("document.getElementById('bar').value > 1")
    page.evaluate("document.getElementById('stop').click()")
    page.until("document.getElementById('state').textContent.startsWith('canceled')")


def test_a_refusal_is_shown_by_its_field(page):
    ask(page, "a red circle", width=63)
    page.until("document.getElementById('fault').textContent !== ''")
    assert "width" in text(page, "fault")


def test_a_prompt_is_never_markup(page):
    ask(page, "<img src=x onerror=document.title='owned'>", steps=2)
    page.until("document.querySelectorAll('#recent li').length > 0")
    page.until("document.getElementById('state').textContent.match(/^(succeeded|failed)/)")
    assert page.evaluate("document.title") == "Atelier"
    assert page.evaluate("document.querySelector('#said img')") is None
