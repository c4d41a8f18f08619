"""An upgrade is tried from a commit of this clone; what clients see is judged by its answers."""

import asyncio

import httpx
import pytest

from bench.parts.upgrade_load import Client, body
from bench.parts.versions import NoHistory, check_out


def test_a_commit_that_is_not_here_says_how_it_would_be(tmp_path):
    with pytest.raises(NoHistory, match="git fetch --unshallow"):
        check_out("0" * 40, tmp_path)


@pytest.mark.parametrize(
    ("status", "headers", "is_later", "is_wrong"),
    [
        (202, {}, False, False),
        (404, {}, False, False),
        (429, {"retry-after": "0"}, True, False),
        (503, {"retry-after": "0"}, True, False),
        (503, {}, False, True),
        (500, {}, False, True),
        (502, {"retry-after": "0"}, False, True),
    ],
)
def test_only_a_503_that_says_when_to_come_back_is_no_fault(status, headers, is_later, is_wrong):
    client = Client("http://service")
    answer = httpx.Response(status, headers=headers, request=httpx.Request("GET", "http://s/v1"))
    assert client._is_later(answer) is is_later
    assert bool(client.seen.wrong) is is_wrong
    asyncio.run(client.close())


def test_clients_ask_for_edits_and_for_images_that_outlast_a_worker():
    asked = [body(number, "a-template") for number in range(12)]
    assert {each.get("task") for each in asked} == {None, "edit"}
    assert {each["steps"] for each in asked} == {8, 100}
