"""The API reference at `/docs`, in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.e2e.shared.accessibility import faults, show_as
from tests.e2e.shared.conftest import NEEDS_CHROMIUM

pytestmark = [pytest.mark.e2e, NEEDS_CHROMIUM]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_everybody_can_read_the_reference_and_try_a_route(page, service, width, scheme):
    show_as(page, width, scheme)
    page.goto(f"{service.addresses.api}/docs")
    summary = page.locator(".opblock-summary-control")
    expect(summary.first).to_be_visible()
    assert faults(page) == []
    for method in ("post", "get", "delete"):
        page.locator(f".opblock-{method} .opblock-summary-control").first.click()
    page.get_by_role("button", name="Try it out").first.click()
    expect(page.get_by_role("button", name="Execute")).to_be_visible()
    page.get_by_role("button", name="Authorize").first.click()
    expect(page.locator(".auth-container input")).to_be_visible()
    assert faults(page) == []
