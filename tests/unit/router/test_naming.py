import json
import re

import pytest

from api.services.scopes import NEEDED
from router.naming import cell_in_path, cells_in_body, key_of, template_of
from router.routes import Way, way_of

HEX = "0123456789abcdef" * 2
KNOWN = ("eu", "us")


@pytest.mark.parametrize(
    ("path", "cell"),
    [
        (f"/v1/jobs/eu_{HEX}", "eu"),
        (f"/v1/jobs/eu_{HEX}/events", "eu"),
        (f"/files/acme/us_{HEX}/1/0.png", "us"),
        (f"/files/acme/templates/us_{HEX}.png", "us"),
        (f"/files/{HEX}/us_{HEX}/1/0.png", "us"),  # a tenant may be named as ids are
        (f"/files/eu_{HEX}/us_{HEX}/1/0.png", "us"),
        (f"/files/acme/{HEX}/1/0.png", ""),
        (f"/files/{HEX}", None),
        (f"/v1/webhooks/eu_{HEX}:completed/replay", "eu"),
        (f"/v1/jobs/{HEX}", ""),
        (f"/v1/jobs/eu_{HEX}0", None),
        ("/v1/jobs", None),
        ("/v1/models/shapes", None),
    ],
)
def test_the_id_in_a_path_names_the_cell(path, cell):
    assert cell_in_path(path) == cell


def test_a_new_job_goes_where_what_it_names_is():
    body = {"prompt": "eu_x", "template": f"us_{HEX}", "loras": [{"id": f"eu_{HEX}"}]}
    assert cells_in_body(json.dumps(body).encode(), KNOWN) == ["us", "eu"]
    url = {"input": {"image": f"http://h/v1/files/us_{HEX}"}}
    assert cells_in_body(json.dumps(url).encode(), KNOWN) == ["us"]


def test_what_merely_speaks_of_ids_names_no_cell():
    body = {"prompt": f"a painting of us_{HEX} in oil", "mask": f"fr_{HEX}", "seed": 1}
    assert cells_in_body(json.dumps(body).encode(), KNOWN) == []


def test_edits_of_one_template_stay_together_however_it_is_sent():
    assert template_of(b'{"template": "data:image/png;base64,AA=="}').startswith("data:")
    assert template_of(b'{"prompt": "a"}') == ""
    assert template_of(b"--form") == ""
    assert template_of(b'{"template": 1}') == ""


def test_a_key_is_read_as_the_api_reads_it():
    assert key_of({"Authorization": "Bearer  k "}) == "k"
    assert key_of({"Authorization": "Basic k"}) == ""
    assert key_of({}) == ""


@pytest.mark.parametrize(
    ("asked", "way"),
    [
        ("POST /v1/jobs", Way.JOB),
        ("POST /v1/images/edits", Way.JOB),
        ("POST /v1/models/atelier/x/predictions", Way.JOB),
        ("GET /v1/jobs", Way.MERGED),
        ("GET /v1/predictions", Way.MERGED),
        ("POST /v1/templates", Way.HOME),
        ("GET /v1/models", Way.HOME),
        ("GET /", Way.HOME),
        ("POST /v1/applications", Way.EVERYWHERE),
        ("DELETE /v1/applications/shop", Way.EVERYWHERE),
        ("GET /v1/applications", Way.HOME),
        ("POST /v1/keys", Way.NAMED),
        ("GET /v1/fleet", Way.NAMED),
        ("DELETE /v1/models/x", Way.NAMED),
    ],
)
def test_a_request_finds_its_cell_by_its_method_and_path(asked, way):
    assert way_of(*asked.split()) is way


#: Routes without an id that every cell answers alike, or that a tenant's home keeps.
AT_HOME = {
    "GET /",
    "GET /assets/{name}",
    "GET /docs",
    "GET /docs/{name}",
    "GET /healthz",
    "GET /openapi.json",
    "GET /readyz",
    "GET /v1/applications",
    "GET /v1/applications/{name}",
    "GET /v1/ip-adapters",
    "GET /v1/models",
    "GET /v1/models/{name}",
    "GET /v1/models/{owner}/{name}",
    "GET /v1/models/{owner}/{name}/versions",
    "GET /v1/models/{owner}/{name}/versions/{version}",
    "GET /v1/webhooks/default/secret",
    "HEAD /openapi.json",
    "POST /v1/controlnets",
    "POST /v1/embeddings",
    "POST /v1/files",
    "POST /v1/loras",
    "POST /v1/templates",
}


def test_no_route_goes_home_because_nobody_thought_of_it():
    """A route that is new in the api needs a row in `router/routes`, or one here."""
    unnamed = {each for each in NEEDED if not re.search(r"\{\w+_id\}|/files/\{", each)}
    assert {each for each in unnamed if way_of(*each.split()) is Way.HOME} == AT_HOME


def test_ids_of_keys_name_no_cell():
    assert way_of("DELETE", f"/v1/keys/{HEX}") is Way.NAMED
