import json

import pytest

from core.errors import ConfigurationError
from profiling.plan import MeasurementPlan
from profiling.prompts import read_prompts, sets_of

PLAN = MeasurementPlan(prompts=2, remembered=3, repeats=2)


def test_the_first_prompts_are_measured_and_others_remembered_in_each_repeat():
    sets = sets_of(PLAN, "abcdefghi")
    assert "".join(sets.measured) == "ab"
    assert ["".join(some) for some in sets.remembered] == ["cde", "fgh"]


def test_too_few_prompts_are_refused_with_how_many_are_needed():
    with pytest.raises(ConfigurationError, match=r"7 prompts.* need 8"):
        sets_of(PLAN, "abcdefg")


def test_prompts_are_read_line_by_line_whatever_else_a_line_says(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": each, "seed": 1}) + "\n" for each in "ab"))
    assert read_prompts(path) == ["a", "b"]


@pytest.mark.parametrize("text", [None, "a red circle\n", '{"caption": "a"}\n'])
def test_a_file_without_prompts_is_named_with_what_it_should_hold(tmp_path, text):
    path = tmp_path / "prompts.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=r'prompts\.jsonl .*\{"prompt"'):
        read_prompts(path)
