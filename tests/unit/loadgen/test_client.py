import asyncio

import pytest
from typer.testing import CliRunner

from core.errors import ConfigurationError
from loadgen.ask import TimedRequest
from loadgen.client.load_client import LoadClient
from loadgen.client.session import open_session
from loadgen.main import app
from loadgen.sample import ClientOutcome
from tests.unit.loadgen.service import TinyService, serving


def asks(count, every_s=0.0, prompt="a red circle"):
    return [
        TimedRequest(at_s=i * every_s, prompt=prompt, options={"seed": i}) for i in range(count)
    ]


async def drive(service, asked, patience_s=20.0):
    async with serving(service) as url, open_session(url, None) as http:
        return await LoadClient(http, patience_s=patience_s).drive(asked)


async def test_every_job_is_followed_to_its_end():
    samples = await drive(TinyService(), [*asks(3), *asks(1, prompt="a failure")])
    assert [sample.ending for sample in samples] == [ClientOutcome.SUCCEEDED] * 3 + [
        ClientOutcome.FAILED
    ]
    assert samples[0].level == "m@0"
    assert samples[0].timing.total_s == 0.4
    assert samples[3].error == "engine_error"
    assert samples[0].sent_s <= samples[0].accepted_s <= samples[0].ended_s


async def test_arrivals_never_wait_for_answers():
    service = TinyService(holds=True)
    async with serving(service) as url, open_session(url, None) as http:
        client = LoadClient(http, patience_s=60.0)
        run = asyncio.create_task(client.drive(asks(120, every_s=0.002)))
        async with asyncio.timeout(60):
            while len(service.polls) < 120:
                await asyncio.sleep(0.01)
        assert client.tally.in_flight == 120
        service.released.set()
        samples = await run
    assert {sample.ending for sample in samples} == {ClientOutcome.SUCCEEDED}


async def test_a_refusal_is_a_sample_and_no_exception():
    samples = await drive(TinyService(refuse_after=1), asks(3, every_s=0.05))
    endings = [sample.ending for sample in samples]
    assert endings == [ClientOutcome.SUCCEEDED, ClientOutcome.REFUSED, ClientOutcome.REFUSED]
    assert samples[1].error == "HTTP 429"
    assert samples[1].accepted_s is None


async def test_a_service_that_is_not_there_is_a_sample_and_no_exception():
    async with open_session("http://127.0.0.1:1", None) as http:
        (sample,) = await LoadClient(http, patience_s=1.0).drive(asks(1))
    assert (sample.ending, sample.error) == (ClientOutcome.BROKEN, "ConnectError")


async def test_a_job_that_never_ends_is_given_up():
    (sample,) = await drive(TinyService(holds=True), asks(1), patience_s=0.1)
    assert sample.ending is ClientOutcome.TIMED_OUT


async def test_the_body_is_the_ask():
    service = TinyService()
    await drive(service, [TimedRequest(at_s=0.0, prompt="a star", options={"steps": 4, "seed": 9})])
    assert service.bodies == [{"prompt": "a star", "steps": 4, "seed": 9}]


async def test_the_command_asks_reports_and_ends_well(tmp_path):
    async with serving(TinyService()) as url:
        given = ["--rate", "20", "--duration", "0.5", "--out", str(tmp_path), "--url", url]
        result = await asyncio.to_thread(CliRunner().invoke, app, [*given, "--json"])
    assert result.exit_code == 0, result.output
    assert '"succeeded":' in result.stdout
    assert (tmp_path / "report.html").exists()


def test_a_run_without_a_single_image_ends_with_one(tmp_path):
    given = ["--rate", "5", "--duration", "0.3", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*given, "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "ConnectError" in result.stdout


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [
        ("localhost:8000", None, "'localhost:8000' .* write http://"),
        ("http://", None, "write http://"),
        ("http://gw:eighty", None, "and its port"),
        ("ftp://gw", None, "write http://"),
        ("http://gw/atelier", None, "has a path"),
        ("http://gw?cell=a", None, "has a path"),
        ("http://gw", "secret\r", "key: .* without line breaks"),
    ],
)
def test_a_url_or_a_key_that_no_request_can_have_is_named(url, key, said):
    with pytest.raises(ConfigurationError, match=said):
        open_session(url, key)


async def test_the_root_of_a_host_is_a_url_of_a_service():
    for url in ("http://127.0.0.1:8000", "https://gw.example/", "http://[::1]:8000"):
        await open_session(url, "secret").close()


def test_a_bad_url_is_a_usage_error(tmp_path):
    result = CliRunner().invoke(app, ["--url", "localhost:8000", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "localhost:8000" in result.output


def test_a_bad_trace_is_a_usage_error(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("when\n1\n")
    assert CliRunner().invoke(app, ["--trace", str(trace)]).exit_code == 2
