"""Problems are declared with their own media type, and nothing else is sent as an error."""

import pytest

from api.views.problems import MEDIA_TYPE
from tests.unit.api.described import described

DESCRIBED = described()
OPERATIONS = [
    pytest.param(path, operation, id=f"{method} {path}")
    for path, methods in DESCRIBED["paths"].items()
    for method, operation in methods.items()
]


@pytest.mark.parametrize(("path", "operation"), OPERATIONS)
def test_an_error_is_declared_as_it_is_sent(path, operation):
    errors = {k: v for k, v in operation["responses"].items() if k == "default" or k >= "400"}
    assert "default" in errors
    expected = "application/json" if path.startswith("/v1/images/") else MEDIA_TYPE
    for status, answer in errors.items():
        assert set(answer.get("content", {expected})) == {expected}, status


def test_what_the_framework_would_send_is_not_described():
    assert "HTTPValidationError" not in DESCRIBED["components"]["schemas"]
