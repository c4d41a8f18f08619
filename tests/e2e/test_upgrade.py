"""The version before and this one serve beside each other, under load, and nobody notices."""

import asyncio

import pytest
from rich.console import Console

from bench.parts.versions import NoHistory, check_out, mixed_service
from bench.upgrade import BEFORE, figures, upgrade

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1500)]


def test_an_upgrade_and_the_way_back_lose_nothing_and_refuse_nobody_for_good(tmp_path):
    try:
        before = check_out(BEFORE, tmp_path / "before")
    except NoHistory as error:
        pytest.skip(str(error))
    with mixed_service(tmp_path / "service") as service:
        found = asyncio.run(upgrade(service, before, Console(stderr=True)))
    told = (found.seen.wrong, found.seen.lost, found.contradictions)
    missed = {name: figure for name, figure in figures(found).items() if figure.ok is False}
    assert missed == {}, told
    assert len(found.seen.accepted) > 20
