"""The table of kinds of faults: enough of them, and each of its own."""

from bench.nemesis.kinds import clocks, failovers, messages, objects, processes, requests, stores
from bench.nemesis.kinds.table import KINDS, SHORT

ROOMS = (processes, stores, failovers, messages, requests, objects, clocks)


def test_no_two_kinds_have_one_name():
    assert len(KINDS) == sum(len(room.KINDS) for room in ROOMS)


def test_there_are_more_kinds_than_were_promised():
    assert len(KINDS) >= 30


def test_the_short_form_has_kinds_of_the_table():
    assert set(SHORT) <= set(KINDS)
