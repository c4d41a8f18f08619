import pytest

from bench.conformance import figures_of

GOOD = {
    "made": "succeeded",
    "edited": "succeeded",
    "problem": 422,
    "fields": ["n", "prompt"],
}


def report(generated=2000, failures=(), errors=()):
    return {
        "test_cases": {"generated": generated},
        "failures": [{"type": each, "count": 1} for each in failures],
        "errors": [{"title": each, "count": 1} for each in errors],
    }


def missed(told=GOOD, **found):
    return [
        name for name, each in figures_of([report(**found)], told, 2000).items() if each.ok is False
    ]


def test_a_service_that_keeps_to_its_description_misses_nothing():
    assert missed() == []


@pytest.mark.parametrize(
    ("found", "figure"),
    [
        ({"generated": 1999}, "cases"),
        ({"failures": ["ServerError"]}, "5xx"),
        ({"failures": ["UndefinedContentType"]}, "undocumented"),
        ({"errors": ["Network Error"]}, "hangs"),
        ({"told": GOOD | {"edited": "failed"}}, "generated_images"),
        ({"told": GOOD | {"fields": []}}, "generated_problems"),
    ],
)
def test_each_fault_is_a_figure_that_is_missed(found, figure):
    assert missed(**found) == [figure]


def test_what_fails_by_the_fault_of_the_tool_is_no_hang():
    assert missed(errors=["Runtime Error"]) == []


def test_cases_of_all_senders_count():
    few = report(generated=1000)
    assert figures_of([few, few], GOOD, 2000)["cases"].ok


def test_a_client_that_could_not_be_used_misses_both():
    assert missed(told={}) == ["generated_images", "generated_problems"]
