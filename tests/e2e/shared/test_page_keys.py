"""The page of a service that asks for keys: a small one beside the one that is shared."""

import json

import pytest
from playwright.sync_api import Browser, Page, expect

from cli.stack.running import running
from core.model import Model
from tests.e2e.shared.accessibility import faults
from tests.e2e.shared.conftest import NEEDS_CHROMIUM
from tests.e2e.shared.form import ask, made
from tests.rig import save_model

pytestmark = [pytest.mark.e2e, pytest.mark.long, NEEDS_CHROMIUM]

KEY = "a tenant's own long random key"


def give(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")


def test_the_page_asks_for_the_key_keeps_it_for_the_tab_and_forgets_it(tmp_path, browser: Browser):
    save_model(tmp_path / "models", Model(name="quick", family="paced", load_s=0.1, step_s=0.01))
    env = {
        "ATELIER_MODELS_DIR": str(tmp_path / "models"),
        "ATELIER_SCORE_SHARE": "0",
        "ATELIER_API_KEYS": json.dumps({KEY: "acme"}),
    }
    with running(tmp_path / "data", env=env) as service, browser.new_context() as context:
        page = context.new_page()
        page.goto(service.addresses.api)
        expect(page.get_by_role("heading", name="This service asks for a key")).to_be_visible()
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
        expect(code).to_contain_text("Bearer $ATELIER_KEY")
        expect(code).not_to_contain_text(KEY)
        page.keyboard.press("Escape")
        assert page.evaluate("localStorage.getItem('key')") is None
        page.get_by_role("button", name="Forget the key").click()
        page.reload()
        expect(page.get_by_role("heading", name="This service asks for a key")).to_be_visible()
        expect(page.get_by_text("a red circle by its tenant")).to_have_count(0)
