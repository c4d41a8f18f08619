"""`atelier simulate`: figures of policies beside each other, or one sentence of what is wrong."""

import json

import pytest
import structlog

from cli.main import main

SMALL = ("--fleet", "a100=2", "--rate", "0.3", "--duration", "20")


@pytest.fixture(autouse=True)
def logs_as_they_were():
    yield
    structlog.reset_defaults()


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *arguments])
    return int(end.value.code or 0)


def test_figures_of_each_policy_are_json(capfd):
    assert run(*SMALL, "--policy", "clipper-ht", "--policy", "argus", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert [row["policy"] for row in found["policies"]] == ["clipper-ht", "argus"]
    wanted = {"policy", "jobs", "late", "quality", "goodput", "loads", "utilisation"}
    assert wanted | {"p50_s", "p95_s", "levels"} <= found["policies"][0].keys()
    assert found["run"]["is_example"] and found["run"]["seed"] == 0


def test_a_person_reads_a_table_and_that_it_is_an_example(capfd):
    assert run(*SMALL, "--policy", "clipper-ht") == 0
    said = capfd.readouterr().out
    assert "clipper-ht" in said and "example" in said


def test_a_trace_may_name_prompts_that_nobody_judged(tmp_path, capfd):
    trace = tmp_path / "trace.csv"
    trace.write_text("at,prompt,n\n0.5,something new,2\n3,,1\n")
    assert run("--fleet", "a100=1", "--trace", str(trace), "--policy", "clipper-ht", "--json") == 0
    (row,) = json.loads(capfd.readouterr().out)["policies"]
    assert row["jobs"] == 2 and 0 < row["quality"] < 1


BAD_TRACE = "at,prompt\n5,a\n1,b\n"
BAD_PROMPTS = '{"prompt": "a"}\n{"prompt": "b", "quality": {"sdxl@0": 2}}\n'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fleet", "a100"), "fleet: 'a100' is not TYPE=COUNT"),
        (("--fleet", "tpu=1"), "fleet: the profile knows no 'tpu'"),
        (("--fail", "9:3:1"), "fail: '9:3:1'"),
        (("--fail", "1:3:3"), "COUNT must be 1 to 2"),
        (("--stall", "disk:1:3"), "stall: 'disk'"),
        (("--policy", "none"), "'none' is none of"),
        (("--profile", "bad"), "profile: "),
        (("--profile", "missing"), "No such file"),
        (("--trace", "bad"), "trace: line 3: at"),
        (("--prompts", "bad"), "prompts: line 2: quality.sdxl@0"),
        (("--rate", "1e7"), "most are"),
        (("--rate", "inf"), "'--rate'"),
        (("--rate", "nan"), "'--rate'"),
        (("--duration", "inf"), "'--duration'"),
        (("--slo", "nan"), "'--slo'"),
        (("--period", "inf"), "'--period'"),
        (("--period", "1e6"), "'--period'"),
        (("--price", "a100"), "price: 'a100' is not TYPE=PRICE"),
        (("--price", "h200=3"), "price: none of 'a100'"),
    ],
)
def test_what_is_malformed_is_refused_by_one_sentence(arguments, words, tmp_path, capfd):
    bad = {"--profile": "{", "--trace": BAD_TRACE, "--prompts": BAD_PROMPTS}
    option, value = arguments
    if value == "bad":
        path = tmp_path / "bad"
        path.write_text(bad[option])
        value = str(path)
    assert run(*SMALL, option, value) == 2
    said = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert words in said
    assert "Traceback" not in said


def test_neither_a_trace_nor_a_rate_is_refused(capfd):
    assert run("--fleet", "a100=1") == 2
    assert "--trace or --rate" in capfd.readouterr().err.replace("\n", " ")
