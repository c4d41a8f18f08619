"""A whole service under a few kinds of faults: its clients' history is right; see `make faults`."""

import pytest

from bench.nemesis.campaign import run_all
from bench.nemesis.kinds.table import KINDS, SHORT

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]


def test_what_clients_were_promised_holds_under_faults():
    told = list[str]()
    results = list(run_all([KINDS[name] for name in SHORT], [0], told.append))
    assert [each for result in results for each in result.violations] == []
    assert {result.kind.name for result in results if result.accepted} == {*SHORT}, told
