import asyncio
import json

import msgspec
import pytest
from typer.testing import CliRunner

from core.errors import ConfigurationError
from loadgen.ask import TimedRequest
from loadgen.compare import compare, read_report
from loadgen.main import app
from loadgen.promise import broken, goodput, judged, late_share, mean_quality
from loadgen.prompts import read_prompts
from loadgen.report import make_report
from loadgen.sample import ClientOutcome
from loadgen.target import Limits
from tests.unit.loadgen.service import TinyService, serving
from tests.unit.loadgen.test_report import a_sample

LINES = (
    '{"prompt": "a star", "quality": {"m@0": 0.5}}\n{"prompt": "a ring", "quality": {"m@0": 0.9}}'
)


def report(tmp_path, name, samples, slo_s=1.5):
    path = tmp_path / name
    path.mkdir()
    made = make_report(samples, {}, slo_s=slo_s)
    (path / "report.json").write_bytes(msgspec.json.encode(made))
    return path


def test_late_are_those_that_failed_or_took_too_long_but_not_those_withdrawn():
    samples = [
        a_sample(),
        a_sample(took_s=2.0),
        a_sample(ending=ClientOutcome.REFUSED),
        a_sample(took_s=9.0, ending=ClientOutcome.CANCELED, is_withdrawn=True),
    ]
    assert late_share(samples, 1.5) == pytest.approx(2 / 3)
    assert goodput(samples, 1.5) == pytest.approx(1 / 3)
    assert late_share([], 1.0) is None


def test_goodput_is_the_quality_of_what_was_on_time(tmp_path):
    (tmp_path / "p").write_text(LINES)
    prompts = read_prompts(tmp_path / "p")
    asks = [TimedRequest(at_s=0, prompt=each) for each in ("a ring", "a star", "a ring", "else")]
    samples = [a_sample(), a_sample(took_s=9.0), a_sample(level="x@5"), a_sample()]
    found = judged(samples, asks, prompts)
    assert [each.quality for each in found] == [0.9, 0.5, None, None]
    assert mean_quality(found) == pytest.approx(0.7)
    assert goodput(found, 1.5) == pytest.approx((0.9 + 1 + 1) / 4)
    assert make_report(found, {}).late is None


def test_limits_that_are_broken_are_said():
    limits = Limits(slo_s=1.0, max_late=0.05, min_goodput=0.9)
    assert broken(limits, late=0.05, worth=0.9) == []
    late, worth = broken(limits, late=0.06, worth=0.89)
    assert "6.00% were late" in late
    assert "goodput was 0.8900" in worth
    assert broken(Limits(), late=1.0, worth=0.0) == []


def test_two_runs_are_laid_beside_each_other(tmp_path):
    before = report(tmp_path, "before", [a_sample(due_s=i) for i in range(100)])
    after = report(tmp_path, "after", [a_sample(due_s=i, took_s=2.0) for i in range(100)])
    found = {each.name: each for each in compare(read_report(before), read_report(after))}
    assert (found["late"].before, found["late"].after) == (0.0, 1.0)
    assert found["late"].is_clear is True
    assert found["p50 s"].change == pytest.approx(1.0)
    assert found["became images"].is_clear is False
    assert "quality" not in found
    result = CliRunner().invoke(app, ["compare", str(before), str(after)])
    assert result.exit_code == 0
    assert "beyond chance" in result.stdout
    shown = CliRunner().invoke(app, ["compare", str(before), str(after), "--json"])
    assert {each["name"] for each in json.loads(shown.stdout)} == set(found)


def test_what_is_no_report_is_named(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"x.json: no report"):
        read_report(tmp_path / "x.json")


async def load(*options):
    async with serving(TinyService()) as url:
        given = ["--rate", "20", "--duration", "0.4", "--url", url, "--prompt", "a star", *options]
        return await asyncio.to_thread(CliRunner().invoke, app, given)


async def test_a_limit_that_is_broken_ends_the_command_with_one(tmp_path):
    out = ["--out", str(tmp_path / "run"), "--max-late", "0.5"]
    kept = await load("--slo", "30", *out)
    assert kept.exit_code == 0, kept.output
    missed = await load("--slo", "0.001", *out, "--against", str(tmp_path / "run"))
    assert missed.exit_code == 1
    assert "more than --max-late" in missed.output
    assert "beyond chance" in missed.output


async def test_prompts_with_qualities_give_a_goodput(tmp_path):
    (tmp_path / "p.jsonl").write_text(LINES)
    result = await load("--slo", "30", "--prompts", str(tmp_path / "p.jsonl"), "--seed", "3",
                        "--out", str(tmp_path), "--json")  # fmt: skip
    told = json.loads(result.stdout)
    assert 0.5 <= told["goodput"] <= 0.9
    assert told["goodput"] == pytest.approx(told["quality"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--max-late", "0.1"], "--slo"),
        (["--find-capacity", "--trace", __file__], "--trace"),
        (["--trace", __file__, "--edits", "0.3"], "--edits"),
        (["--trace", __file__, "--application", "a", "--application", "b"], "--application"),
        (["--prompts", "/dev/null"], "names none"),
        (["--rate", "inf"], "'--rate'"),
        (["--duration", "inf"], "'--duration'"),
        (["--slo", "nan"], "'--slo'"),
        (["--slo", "1", "--max-late", "nan"], "'--max-late'"),
        (["--patience", "nan"], "'--patience'"),
        (["--period", "inf"], "'--period'"),
        (["--period", "1e6"], "'--period'"),
        (["--patience", "-1"], "'--patience'"),
        (["--cv", "1e200"], "'--cv'"),
        (["--duration", "1e10"], "'--duration'"),
        (["--steps", "99999999999"], "'--steps'"),
        (["--images", "99999999999999999999"], "'--images'"),
        (["--seed", "99999999999999999999"], "'--seed'"),
        (["--trace", __file__, "--rate", "2"], "--rate: requests of --trace"),
        (["--trace", __file__, "--duration", "9"], "--duration: requests of --trace"),
        (["--trace", __file__, "--arrivals", "ramp"], "--arrivals: requests of --trace"),
        (["--trace", __file__, "--cv", "2"], "--cv: requests of --trace"),
        (["--trace", __file__, "--period", "9"], "--period: requests of --trace"),
        (["--rate", "1e6", "--duration", "1e6"], "most are"),
    ],
)
def test_options_that_cannot_work_are_usage_errors(given, said):
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert said in result.output


async def test_the_capacity_of_a_service_that_is_not_there_is_an_error(tmp_path):
    given = ["--find-capacity", "--url", "http://127.0.0.1:1", "--out", str(tmp_path)]
    result = await asyncio.to_thread(CliRunner().invoke, app, given)
    assert result.exit_code == 1
    assert "ConnectError" in str(result.exception)
