import json

import pytest

from api.views.openai_error import error_body
from router.problems import problem


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/small"])
def test_what_openais_clients_ask_too_is_said_as_a_problem_and_as_theirs(path):
    answer = problem(path, 503, "no-cell", "No cell can take this now", "all are away")
    said = json.loads(answer.text)
    assert (answer.content_type, said["detail"]) == ("application/problem+json", "all are away")
    assert said["error"]["message"] == "No cell can take this now: all are away"
    assert said["error"]["code"] == "no_cell"


@pytest.mark.parametrize("status", [408, 413, 429, 503])
def test_an_error_says_what_the_api_would(status):
    said = json.loads(problem("/v1/images/edits", status, "too-many", "Too many", "wait").text)
    assert said == error_body(status, "Too many: wait", code="too_many")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/models/acme/small"])
def test_elsewhere_a_problem_is_one_alone(path):
    answer = problem(path, 503, "no-cell", "No cell can take this now", "all are away")
    assert "error" not in json.loads(answer.text)
