"""Every command of README and docs exists, with its options."""

import json
import re

import pytest

from tests.documents.existing import complaint
from tests.documents.pages import PAGES, READ, blocks, commands, name_of
from tests.documents.unrun import UNRUN


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_of_a_page_exists(page):
    found = [f"{each} ({told})" for each in commands(page) if (told := complaint(each.words))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_a_page_says_what_it_is(page):
    shown = [block for block in blocks(page) if not block.is_run]
    assert [str(each) for each in shown if each.language not in READ] == []
    for block in shown:
        if block.language == "json":
            json.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_shown_stands_in_a_block(page):
    """A block of four spaces would be neither checked nor run."""
    shown = re.findall(r"\n\n(    .*)", page.read_text())
    assert [line for line in shown if re.match(r" +(atelier|curl|make|python|\.venv)", line)] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("atelier submit hello --nonesuch", "No such option"),
        ("atelier nonesuch", "atelier has no command nonesuch"),
        ("atelier submit hello --format gif", "is not one of"),
        ("make nonesuch", "make has no nonesuch"),
        ("python -m bench.nonesuch", "there is no module"),
        ("python -m bench.edit --nonesuch", "has no --nonesuch"),
        ("pytest tests/nonesuch.py", "there is no tests/nonesuch.py"),
        ("curl localhost:8000/v1/nonesuch", "the api has no /v1/nonesuch"),
        ("nonesuch", "neither ours"),
    ],
)
def test_what_does_not_exist_is_found(words, told):
    assert told in complaint(words.split())


def test_every_block_is_run_or_has_a_reason_that_is_needed():
    """The blocks without one are run by tests/e2e/test_documents.py."""
    run = [block for page in PAGES for block in blocks(page) if block.is_run]
    needed = {key for key in UNRUN for b in run if key[0] == b.page and b.start.startswith(key[1])}
    assert needed == UNRUN.keys()
