import asyncio

import aiohttp
import pytest

from loadgen.ask import TimedRequest
from loadgen.client import follow
from loadgen.client.load_client import LoadClient, following
from loadgen.client.receiver import receiving
from loadgen.client.session import open_session
from loadgen.sample import ClientOutcome
from loadgen.target import Follow
from tests.unit.loadgen.service import TinyService, serving


async def drive(service, how, asks, patience_s=10.0):
    async with (
        serving(service) as url,
        open_session(url, None) as http,
        following(how, http) as way,
    ):
        samples = await LoadClient(http, patience_s=patience_s, follower=way).drive(asks)
        service.released.set()  # whatever it has not answered yet
        return samples


async def happens(is_so):
    async with asyncio.timeout(60.0):
        while not is_so():
            await asyncio.sleep(0.005)


def two():
    return [TimedRequest(at_s=0.0, prompt=each) for each in ("a star", "a failure")]


@pytest.mark.parametrize("how", Follow)
async def test_the_end_is_learnt_whichever_way_a_job_is_followed(how, monkeypatch):
    monkeypatch.setattr(follow, "EVERY_S", 0.02)
    service = TinyService(holds=True)
    asyncio.get_running_loop().call_later(0.1, service.released.set)
    samples = await drive(service, how, two())
    assert [each.ending for each in samples] == [ClientOutcome.SUCCEEDED, ClientOutcome.FAILED]
    assert samples[0].level == "m@0"
    assert not service.canceled


async def test_a_stream_that_ends_early_is_resumed_after_its_last_event():
    service = TinyService(cut=1)
    (sample,) = await drive(service, Follow.EVENTS, two()[:1])
    assert sample.ending is ClientOutcome.SUCCEEDED
    assert service.resumed == ["", "7-0"]


async def test_calls_that_tell_of_no_job_are_refused():
    async with receiving() as receiver, aiohttp.ClientSession() as http:
        url = receiver.body["webhook"]["url"]
        for body, status in ((b"no", 400), (b'{"data": {"id": "x", "status": "queued"}}', 204)):
            async with http.post(url, data=body) as answer:
                assert answer.status == status
        async with http.post(url + "x", data=b"{}") as answer:
            assert answer.status == 404


@pytest.mark.parametrize("how", Follow)
async def test_a_job_that_never_ends_is_given_up_whichever_way_it_is_followed(how):
    (sample,) = await drive(TinyService(holds=True), how, two()[:1], patience_s=0.1)
    assert sample.ending is ClientOutcome.TIMED_OUT


async def test_a_client_that_loses_interest_cancels_its_job():
    service = TinyService(holds=True)
    ask = TimedRequest(at_s=0.0, prompt="a star", cancel_s=0.05)

    async def release():
        await happens(lambda: service.canceled)
        service.released.set()

    (sample,), _ = await asyncio.gather(drive(service, Follow.LONG_POLL, [ask]), release())
    assert sample.ending is ClientOutcome.CANCELED
    assert sample.is_withdrawn


async def test_a_run_that_is_stopped_sends_no_more_and_cancels_the_rest():
    service = TinyService(holds=True)
    asks = [TimedRequest(at_s=0.01 * i, prompt="a star") for i in range(1000)]
    stop = asyncio.Event()

    async def end(client):
        await happens(lambda: len(service.bodies) >= 3)
        stop.set()
        await happens(lambda: len(service.canceled) == client.tally.sent)
        service.released.set()

    async with serving(service) as url, open_session(url, None) as http:
        client = LoadClient(http, patience_s=100.0)
        samples, _ = await asyncio.gather(client.drive(asks, stop=stop), end(client))
        assert client.overdue(0.0) == 0
    assert 2 < len(samples) < len(asks)
    assert {each.ending for each in samples} == {ClientOutcome.CANCELED}
    assert all(each.is_withdrawn for each in samples)
