"""Every block of README and docs that a reader types does what the page says, in order."""

import json
import secrets
import shutil

import pytest

from cli.stack.running import running
from tests.documents.pages import PAGES, PYTHON, blocks, name_of
from tests.documents.unrun import reason
from tests.map import ROOT
from zoo.demo.typed import Shell

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1800)]

RUN = {
    name_of(page): run
    for page in PAGES
    if (run := [b for b in blocks(page) if b.is_run and reason(b.page, b.start) is None])
}
#: Pages of services that ask for keys.
WITH_KEYS = {"docs/tenants.md"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("service")) as service:
        yield service


def typed(page, folder, url):
    shell = Shell(folder=folder, url=url, environment={})
    shutil.copy(ROOT / "docs/samples/photo.png", folder / "photo.png")
    for block in RUN[page]:
        shell.run_python(block.text) if block.language == PYTHON else shell.type(block.text)


@pytest.mark.parametrize("page", sorted(RUN.keys() - WITH_KEYS))
def test_a_page_does_what_it_says(page, service, tmp_path):
    typed(page, tmp_path, service.addresses.api)


@pytest.mark.parametrize("page", sorted(WITH_KEYS))
def test_a_page_of_a_service_with_keys_does_what_it_says(page, tmp_path):
    key = secrets.token_hex(32)
    env = {"ATELIER_OPERATOR_KEYS": json.dumps([key])}
    with running(tmp_path / "data", env=env) as service:
        folder = tmp_path / "typed"
        folder.mkdir()
        (folder / "operator.key").write_text(key)
        typed(page, folder, service.addresses.api)
