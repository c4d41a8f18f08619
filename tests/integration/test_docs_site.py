"""`make docs`: the site is built without a warning, and every link in it leads somewhere."""

import importlib.util
import os
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlparse

import pytest

from tests.map import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.long]


class Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.links += [told[name] for name in ("href", "src") if told.get(name)]
        self.anchors |= {told[name] for name in ("id", "name") if told.get(name)}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if importlib.util.find_spec("furo") is None:
        assert "CI" not in os.environ, "pip install -c constraints.txt -e '.[docs]'"
        pytest.skip("the extra `docs` is not installed: make docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_link_leads_to_a_page_and_a_heading_of_it(site):
    pages = {path: Page(path) for path in site.rglob("*.html") if path.stem != "genindex"}
    broken = []
    for path, page in pages.items():
        for link in map(urlparse, page.links):
            if link.scheme or link.netloc:
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            if not target.exists():
                broken.append(f"{path.name}: {link.path}")
            elif link.fragment and target in pages:
                anchors = pages[target].anchors
                if unquote(link.fragment) not in anchors:
                    broken.append(f"{path.name}: {link.path}#{link.fragment}")
    assert broken == []


def test_what_is_written_from_the_code_is_there(site):
    assert "POST /v1/jobs" in (site / "http.html").read_text()
    assert "ATELIER_MAX_QUEUE" in (site / "settings.html").read_text()
    assert "atelier submit" in (site / "commands.html").read_text()
