import asyncio

import pytest

from atelier_client.types.service import Loading, Worker
from cli.stack.warming import WarmingNews, in_words, tell_of_warming
from tests.unit.cli.stack.test_probes import http, serving


def a_worker(models=(), **fields):
    return Worker(name="worker-1@host", models=models, **fields)


def reading(seconds, **fields):
    return Loading(model="sdxl", stage="reading", seconds=seconds, **fields)


def test_what_is_new_is_said_once():
    news = WarmingNews()
    first = a_worker(loading=reading(0.2))
    assert news.of([first]) == ["worker-1 loads sdxl"]
    assert news.of([first]) == []
    assert news.of([a_worker(("sdxl",))]) == ["worker-1 serves sdxl"]
    assert news.of([a_worker(("sdxl",))]) == []


def test_a_long_load_is_told_of_now_and_then_with_how_far_it_is():
    news, lines = WarmingNews(), []
    for seconds in range(40):
        lines += news.of([a_worker(loading=reading(float(seconds), fraction=seconds / 40))])
    assert lines == [
        "worker-1 loads sdxl",
        "worker-1 loads sdxl (15 s, 38%)",
        "worker-1 loads sdxl (30 s, 75%)",
    ]


def test_what_cannot_be_served_is_named_with_the_reason():
    failures = {"sdxl": "sdxl/unet: truncated"}
    news = WarmingNews()
    assert news.of([a_worker(failures=failures)]) == [
        "worker-1 cannot serve sdxl: sdxl/unet: truncated"
    ]
    assert news.of([a_worker(failures=failures)]) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (Loading(model="m", stage="room", seconds=3.0), "makes room for m (3 s)"),
        (reading(2.0, serves=False), "loads sdxl to try it (2 s)"),
        (Loading(model="m", stage="timing"), "times m"),
        (Loading(model="m", stage="a new one"), "loads m"),
    ],
)
def test_every_stage_has_its_words(now, said):
    assert in_words(now) == said


def test_that_a_model_is_timed_between_jobs_is_no_news():
    timing = Loading(model="m", stage="timing")
    assert WarmingNews().of([a_worker(loading=timing)]) == []


async def test_the_fleet_is_not_looked_for_behind_a_proxy(monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    told = asyncio.Queue()
    fleet = '{"workers": [{"name": "worker-1@host", "models": ["sdxl"]}]}'
    async with serving(http(200, fleet)) as port, asyncio.timeout(20.0):
        telling = asyncio.create_task(
            tell_of_warming(f"http://127.0.0.1:{port}", {}, told.put_nowait)
        )
        assert await told.get() == "worker-1 serves sdxl"
        telling.cancel()
