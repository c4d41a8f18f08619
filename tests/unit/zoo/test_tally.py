import pytest

from zoo.checker import Aspect, Part, Report
from zoo.tally import Tally


def _report(**parts):
    return Report(
        parts=tuple(Part(aspect=Aspect(name), is_right=right) for name, right in parts.items())
    )


def test_a_tally_counts_strict_passes_and_parts():
    reports = [_report(colour=True, shape=True), _report(colour=True, shape=False)]
    tally = Tally.of(1, reports)
    assert tally.strict == 0.5
    assert tally.share == pytest.approx(0.75)
    assert tally.aspects == {Aspect.COLOUR: 1.0, Aspect.SHAPE: 0.5}


def test_fields_for_json_are_plain_and_rounded():
    fields = Tally.of(2, [_report(colour=True), _report(colour=True), _report(colour=False)])
    assert fields.as_fields()["aspects"] == {"colour": 0.667}
