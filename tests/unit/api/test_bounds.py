"""Every text, list and mapping that a client may send has a bound, in the description too."""

import pytest

from tests.unit.api.described import described

DESCRIBED = described()
SCHEMAS = DESCRIBED["components"]["schemas"]

#: What says that a text is one of few, or bounded.
OF_TEXT = {"maxLength", "enum", "const"}
#: Formats that say what a text is to its last character (RFC 3339, section 5.6).
FORMATS = {"binary", "date"}
BOUNDS = {"string": OF_TEXT, "array": {"maxItems"}, "object": {"maxProperties", "properties"}}


def unbounded(schema, path):
    """Name what has no bound, in and below a schema that a client fills in."""
    if "$ref" in schema:
        return unbounded(SCHEMAS[schema["$ref"].rpartition("/")[2]], path)
    if schema.get("format") in FORMATS:
        return []
    kind = schema.get("type")
    own = [f"{path}: {kind}"] if kind in BOUNDS and not BOUNDS[kind] & schema.keys() else []
    return own + [found for each in parts(schema, path) for found in unbounded(*each)]


def parts(schema, path):
    """List what a schema is made of, each with its path."""
    yield from ((each, path) for each in schema.get("anyOf", []) + schema.get("allOf", []))
    yield from ((each, f"{path}.{name}") for name, each in schema.get("properties", {}).items())
    for name in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(name), dict):
            yield schema[name], f"{path}.{name}"


def operations():
    for path, methods in DESCRIBED["paths"].items():
        for method, operation in methods.items():
            yield pytest.param(operation, id=f"{method} {path}")


@pytest.mark.parametrize("operation", list(operations()))
def test_what_a_client_sends_is_bounded(operation):
    found = []
    for each in operation.get("parameters", ()):
        if each["in"] != "path":  # bounded as a whole, by the length of a request's target
            found += unbounded(each["schema"], each["name"])
    for content in operation.get("requestBody", {}).get("content", {}).values():
        found += unbounded(content["schema"], "body")
    assert found == []


def test_the_walk_finds_what_has_no_bound():
    open_ = {
        "type": "object",
        "properties": {
            "text": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "list": {"type": "array", "items": {"type": "string", "maxLength": 3}},
            "map": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
        },
    }
    assert unbounded(open_, "body") == ["body.text: string", "body.list: array", "body.map: object"]
