"""Every field and parameter of the API says what it means."""

from api.views.glossary import WORDS, describe, undescribed
from tests.unit.api.described import described

DESCRIBED = described()


def test_everything_that_is_sent_or_shown_says_what_it_means():
    assert undescribed(DESCRIBED) == []


def test_no_word_is_explained_that_nothing_uses():
    schemas = DESCRIBED["components"]["schemas"]
    fields = {f"{s}.{name}" for s, shown in schemas.items() for name in shown.get("properties", {})}
    names = {field.rpartition(".")[2] for field in fields} | {
        parameter["name"]
        for methods in DESCRIBED["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", ())
    }
    assert set(WORDS) - fields - names == set()


def test_a_field_that_says_so_itself_is_left_as_it_is():
    document = {
        "components": {"schemas": {"A": {"properties": {"id": {"description": "own"}, "x": {}}}}},
        "paths": {},
    }
    describe(document)
    assert document["components"]["schemas"]["A"]["properties"] == {
        "id": {"description": "own"},
        "x": {},
    }
    assert undescribed(document) == ["A.x"]


def test_keys_can_be_tried_in_the_reference():
    assert DESCRIBED["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
