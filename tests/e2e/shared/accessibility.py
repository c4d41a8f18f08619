"""What axe finds wrong with a page, of what keeps people from using it."""

from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Page

AXE = (Path(__file__).parents[2] / "vendor" / "axe-4.14.1.min.js").read_text()
OF_WEIGHT = {"serious", "critical"}
PHONE, DESK = 390, 1280  #: pixels wide


def at_each_size(width: int, scheme: str) -> pytest.MarkDecorator:
    """Run a test on a phone and a desk, dark and light: one daily, the rest as long ones."""
    cases = [
        each if each == (width, scheme) else pytest.param(*each, marks=pytest.mark.long)
        for each in product((PHONE, DESK), ("dark", "light"))
    ]
    return pytest.mark.parametrize(("width", "scheme"), cases)


def faults(page: Page) -> list[str]:
    """List what is serious or critical, each with where it was found."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    return [
        f"{fault['id']}: {fault['help']}: {[node['target'] for node in fault['nodes']]}"
        for fault in found
        if fault["impact"] in OF_WEIGHT
    ]


def show_as(page: Page, width: int, scheme: str) -> None:
    """Make the window so many pixels wide, and prefer light or dark."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)


def is_as_wide_as_its_window(page: Page) -> bool:
    """Tell whether nothing has to be scrolled to the side."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
