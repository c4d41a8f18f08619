"""docs/http.md tells every problem with its status, and every error of a job."""

import re
from collections.abc import Iterator
from http import HTTPStatus

from api import protocol_faults
from api.views.errors import kind_of
from core.errors import EngineError, RequestRejected
from tests.map import ROOT

PAGE = (ROOT / "docs/http.md").read_text()
PROBLEMS = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", PAGE, re.MULTILINE))
FAILURES = set(re.findall(r"^\| `([a-z_]+)` \| \D", PAGE, re.MULTILINE))


def kinds_of(base: type) -> Iterator[type]:
    """Every kind of an error, of those that `core/errors.py` has."""
    for each in base.__subclasses__():
        if each.__module__ == base.__module__:
            yield each
        yield from kinds_of(each)


def test_every_refusal_is_told_with_its_status():
    refused = {kind_of(each): str(each.status) for each in kinds_of(RequestRejected)}
    assert refused.items() <= PROBLEMS.items()


def test_every_fault_of_the_protocol_is_told_with_its_status():
    faults = vars(protocol_faults).values()
    found = {each.status for each in faults if isinstance(each, protocol_faults.ProtocolFault)}
    assert {as_kind(status): str(status.value) for status in found}.items() <= PROBLEMS.items()


def test_every_status_that_a_route_raises_is_told():
    raised = {
        int(status)
        for path in (ROOT / "api").rglob("*.py")
        for status in re.findall(r"HTTPException\((\d+)", path.read_text())
    }
    assert {as_kind(HTTPStatus(each)) for each in raised} <= PROBLEMS.keys()


def test_every_problem_that_is_named_where_it_arises_is_told():
    named = {
        kind
        for folder in ("api", "router")
        for path in (ROOT / folder).rglob("*.py")
        for kind in re.findall(
            r'kind="([a-z-]+)"|problem\(request\.path, \d+, "([a-z-]+)"', path.read_text()
        )
    }
    assert {one or other for one, other in named} <= PROBLEMS.keys()


def test_every_error_of_a_job_is_told():
    told_by_workers = {each.type for each in (EngineError, *kinds_of(EngineError))}
    told_otherwise = {
        kind
        for name in ("worker/jobs/claimed.py", "storage/jobs/record.py", "tasks/upkeep/reroute.py")
        for kind in re.findall(r'\btype="(\w+)"', (ROOT / name).read_text())
    }
    assert told_by_workers | told_otherwise <= FAILURES


def as_kind(status: HTTPStatus) -> str:
    return status.phrase.lower().replace(" ", "-")
