"""The site of the docs: every page has its reader, and what pages name is there."""

import re

import pytest

from tests.documents.pages import PAGES, name_of
from tests.map import ROOT
from zoo.demo.gallery import rows

DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
INDEX = (DOCS / "index.md").read_text()
#: Pages that are named before they are made, by `make gpu`.
TO_COME: set[str] = set()


def test_every_page_stands_once_under_one_kind_of_reader():
    listed = re.findall(r"^([\w/*-]+)$", INDEX.partition(":::")[2], re.MULTILINE)
    pages = [path.stem for path in DOCS.glob("*.md") if path.stem != "index"]
    assert sorted(listed) == sorted([*pages, "adr/*"]), "docs/index.md lists every page once"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_and_picture_that_a_page_names_is_there(page):
    text = page.read_text()
    named = set(re.findall(r"`((?:docs|ops|tests|bench)/[\w./-]+\.\w+)`", text)) - TO_COME
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_a_decision_that_is_named_is_there_once():
    files = [path.name[:4] for path in (DOCS / "adr").glob("*.md")]
    numbers = set(files)
    assert sorted(files) == sorted(numbers)
    for page in PAGES:
        said = re.findall(r"`docs/adr/(\d{4})|\bADR (\d{4})", page.read_text())
        assert {one or other for one, other in said} <= numbers, page


def test_every_figure_of_the_readme_has_a_command_that_docs_tell_of():
    figures = re.findall(r"\| `python -m (bench\.\w+)[^`]*` \|$", README, re.MULTILINE)
    assert len(figures) >= 8
    told = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert [name for name in figures if not re.search(rf"{name}\b", told)] == []


def test_the_readme_is_read_in_one_sitting():
    assert len(README.splitlines()) <= 130


def test_the_gallery_has_a_small_picture_of_every_row():
    pictures = {path.stem: path for path in (DOCS / "images/gallery").iterdir()}
    assert pictures.keys() == rows().keys()
    assert sum(path.stat().st_size for path in pictures.values()) <= 300_000
