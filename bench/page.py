"""Benchmark the page for people: what is fetched to show it, and how soon something is seen.

The whole service runs as `atelier up` runs it. A headless Chromium opens the page with an empty
cache, again and again: as it is, and on a phone - its processor four times as slow, its network
that of 4G (1.6 Mbit/s down, 150 ms there and back), as Lighthouse has it. First paint is what the
browser says of itself (`first-contentful-paint`); the form is there when it can be typed into.

    python -m bench.page --quick
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import typer
from playwright.sync_api import Browser, sync_playwright

from bench.parts.report import Figure, at_most, finish, machine, median, percentile, plain
from cli.stack.running import running

BUILT = Path(__file__).parents[1] / "api" / "page"
CHROMIUM = "/usr/bin/chromium"

MAX_BYTES = 500_000
MAX_PAINT_MS = 1000.0

#: What Lighthouse plays a phone with.
SLOWER = 4
NETWORK = {
    "offline": False,
    "latency": 150,
    "downloadThroughput": 1.6e6 / 8,
    "uploadThroughput": 0.75e6 / 8,
}

PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
FETCHED = """performance.getEntries().filter((each) => 'transferSize' in each
    && (each.entryType === 'navigation' || each.name.includes('/assets/')))
    .reduce((sum, each) => sum + each.transferSize, 0)"""
#: When the form is there, on the clock that paints are told on.
USABLE = """new Promise((tell) => {
    const look = () => document.querySelector('[name=prompt]') ? tell(performance.now())
        : requestAnimationFrame(look);
    look();
})"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One opening of the page, nothing of it known before."""

    painted_ms: float
    usable_ms: float
    fetched: int  #: bytes over the network, of the page alone


def visit(browser: Browser, url: str, *, is_phone: bool) -> Visit:
    """Open the page as somebody new does."""
    with browser.new_context(
        viewport={"width": 390 if is_phone else 1280, "height": 900}
    ) as person:
        page = person.new_page()
        if is_phone:
            tools = person.new_cdp_session(page)
            tools.send("Network.enable")
            tools.send("Network.emulateNetworkConditions", NETWORK)
            tools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        page.goto(url, wait_until="commit")
        usable_ms = page.evaluate(USABLE)
        page.wait_for_load_state("load")
        page.wait_for_function(PAINTED.replace("[0].startTime", ".length > 0"))
        return Visit(
            painted_ms=page.evaluate(PAINTED),
            usable_ms=usable_ms,
            fetched=page.evaluate(FETCHED),
        )


def figures_of(desks: list[Visit], phones: list[Visit]) -> dict[str, Figure]:
    """Put what was seen beside its bars."""
    shipped = sum(path.stat().st_size for path in BUILT.rglob("*") if path.is_file())
    painted = [each.painted_ms for each in desks]
    return {
        "all files of the page": at_most(shipped, MAX_BYTES, "bytes"),
        "fetched until the form is there": plain(median([each.fetched for each in desks]), "bytes"),
        "first paint, p50": at_most(median(painted), MAX_PAINT_MS, "ms"),
        "first paint, p95": at_most(percentile(painted, 0.95), MAX_PAINT_MS, "ms"),
        "form is there, p50": plain(median([each.usable_ms for each in desks]), "ms"),
        "first paint on a phone, p50": at_most(
            median([each.painted_ms for each in phones]), MAX_PAINT_MS, "ms"
        ),
        "form is there on a phone, p50": plain(median([each.usable_ms for each in phones]), "ms"),
    }


def main(
    quick: bool = typer.Option(False, help="A quarter of the visits."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
) -> None:
    """Open the page again and again. Example: `python -m bench.page --quick`."""
    visits = 10 if quick else 40
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder)) as service,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])
        url = service.addresses.api
        visit(browser, url, is_phone=False)  # the browser itself starts
        desks = [visit(browser, url, is_phone=False) for _ in range(visits)]
        phones = [visit(browser, url, is_phone=True) for _ in range(visits // 4)]
        browser.close()
    figures = figures_of(desks, phones)
    raise SystemExit(finish("page", figures, where=machine(), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
