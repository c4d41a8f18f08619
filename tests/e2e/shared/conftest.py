"""The whole embedded service, started once for all tests here: each leaves it as it was."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from atelier_client import Client
from cli.client.options import connect
from cli.stack.running import Running, running
from tests.collector import Collector, collecting
from tests.e2e.lean import one_model
from tests.e2e.shared.browser import BINARY, LEAN

PICTURES = Path(__file__).parents[3] / "docs/images"
NEEDS_CHROMIUM = pytest.mark.skipif(
    not BINARY.exists() and "CI" not in os.environ, reason="apt-get install chromium"
)

#: What a browser says of an answer that says why itself.
REFUSED = "Failed to load resource: the server responded with a status of 4"
WITHIN_MS = 100_000


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="package")
def service(tmp_path_factory, collector) -> Iterator[Running]:
    # Hooks of the tests are on loopback.
    environment = {
        "ATELIER_WEBHOOK_ALLOW_PRIVATE": "true",
        "ATELIER_LOG_JSON": "true",
        "ATELIER_OTLP_ENDPOINT": collector.url,
        "ATELIER_ROUTE_BUDGET_S": "10",  # a stall of the machine is no stall of the scheduler
        **one_model(tmp_path_factory.mktemp("models")),
    }
    with running(tmp_path_factory.mktemp("service"), env=environment) as service:
        yield service


@pytest.fixture
def client(service) -> Iterator[Client]:
    with connect(service.addresses.api, None) as client:
        yield client


@pytest.fixture
def http(service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.addresses.api, timeout=30.0) as http:
        yield http


@pytest.fixture
def flower(service) -> Iterator[httpx.Client]:
    auth = json.loads(Path(service.addresses.secrets).read_text())["flower_auth"]
    user, _, password = auth.partition(":")
    options = {"base_url": service.addresses.flower, "timeout": 30.0}
    with httpx.Client(auth=(user, password), **options) as http:
        yield http


@pytest.fixture(scope="module")  # while it is open, nothing else of its process may run a loop
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=WITHIN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BINARY, args=LEAN)
        yield browser
        browser.close()


@pytest.fixture
def take(request) -> Callable[[Page, str], None]:
    """Take a picture for the docs: written with `--docs-images`, else only taken."""
    is_kept = request.config.getoption("--docs-images")

    def take(page: Page, name: str) -> None:
        picture = page.screenshot(type="png", animations="disabled")
        assert picture.startswith(b"\x89PNG")
        if is_kept:
            (PICTURES / f"{name}.png").write_bytes(picture)

    return take


@pytest.fixture
def page(browser, service) -> Iterator[Page]:
    """A new person's page; whatever it complains about fails the test."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.goto(service.addresses.api)
        yield page
        assert [each for each in complaints if not each.startswith(REFUSED)] == []
