import asyncio

import httpx
import pytest

from api.services import clients
from api.services.clients import read_processes

URLS = [f"http://127.0.0.1:{port}/metrics" for port in (1, 2, 3)]
GOOD = "# HELP steps_total Steps.\n# TYPE steps_total counter\nsteps_total 2.0\n"


async def read(answer):
    async with httpx.AsyncClient(
        transport=httpx.MockTransport(answer), base_url="http://scheduler"
    ) as http:
        said = await read_processes(http, URLS)
    return [
        [(sample.name, sample.value) for each in one for sample in each.samples] for one in said
    ]


async def test_each_process_is_asked_where_it_is():
    asked = []

    def answer(request):
        asked.append(str(request.url))
        return httpx.Response(200, text=GOOD)

    assert await read(answer) == [[("steps_total", 2.0)]] * 3
    assert sorted(asked) == URLS


def absent(request):
    raise httpx.ConnectError("refused", request=request)


def broken(request):
    return httpx.Response(200, text=f"{GOOD}<html>")


def failing(request):
    return httpx.Response(500, text=GOOD)


@pytest.mark.parametrize("other", [absent, broken, failing])
async def test_a_process_that_says_nothing_to_be_read_is_left_out_and_named(other, logs):
    def answer(request):
        return other(request) if request.url.port == 2 else httpx.Response(200, text=GOOD)

    assert await read(answer) == [[("steps_total", 2.0)], [], [("steps_total", 2.0)]]
    assert [(each["event"], each["url"]) for each in logs] == [("metrics_without_process", URLS[1])]


async def test_a_process_that_hangs_is_not_waited_for(monkeypatch, logs):
    monkeypatch.setattr(clients, "METRICS_S", 0.01)

    async def answer(request):
        if request.url.port == 2:
            await asyncio.Event().wait()
        return httpx.Response(200, text=GOOD)

    assert [bool(said) for said in await read(answer)] == [True, False, True]


async def test_where_nobody_is_named_nobody_is_asked():
    async with httpx.AsyncClient(transport=httpx.MockTransport(absent)) as http:
        assert await read_processes(http, ()) == []
