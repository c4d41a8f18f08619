"""`atelier simulate`: figures of policies beside each other, or one sentence of what is wrong."""

import json
from dataclasses import replace

import pytest
import structlog

from cli.main import main
from core.settings import PROFILE, get_settings
from scheduler.profile.profile_file import read_measured, write_measured
from simulator.inputs import EXAMPLE
from tests.map import ROOT

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
UNKNOWN_MODEL = 'at,prompt,model\n1,"two\nlines",sdxl\n2,b,sd-xl\n'
BAD_PROMPTS = '{"prompt": "a"}\n{"prompt": "b", "quality": {"sdxl@0": 2}}\n'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fleet", "a100"), "fleet: 'a100' is not TYPE=COUNT"),
        (("--fleet", "tpu=1"), "fleet: the profile knows no 'tpu'"),
        (("--fail", "9:3:1"), "fail: '9:3:1'"),
        (("--fail", "1:3:3"), "COUNT must be 1 to 2"),
        (("--stall", "disk:1:3"), "stall: 'disk'"),
        (("--policy", "none"), "value: policy: 'none' is none of atelier, "),
        (("--profile", "bad"), "profile: "),
        (("--profile", "missing"), "No such file"),
        (("--trace", "bad"), "trace: line 3: at"),
        (("--trace", "unknown"), "trace: line 4: model: 'sd-xl' is none of "),
        (("--prompts", "bad"), "prompts: line 2: quality.sdxl@0"),
        (("--seed", "-1"), "'--seed'"),
        (("--seed", "1" + 20 * "0"), "'--seed'"),
        (("--cv", "1e200"), "'--cv'"),
        (("--duration", "1e10"), "'--duration'"),
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
    if value in {"bad", "unknown"}:
        path = tmp_path / "bad"
        path.write_text(UNKNOWN_MODEL if value == "unknown" else bad[option])
        value = str(path)
    assert run(*(SMALL[:2] if option == "--trace" else SMALL), option, value) == 2
    said = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert words in said
    assert "Traceback" not in said


def test_neither_a_trace_nor_a_rate_is_refused(capfd):
    assert run("--fleet", "a100=1") == 2
    assert "--trace or --rate" in capfd.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    "given", [("--rate", "2"), ("--duration", "600"), ("--arrivals", "poisson"), ("--cv", "2")]
)
def test_what_draws_arrivals_is_refused_beside_a_trace(given, tmp_path, capfd):
    (tmp_path / "trace.csv").write_text("at\n0\n")
    assert run("--fleet", "a100=1", "--trace", str(tmp_path / "trace.csv"), *given) == 2
    said = capfd.readouterr().err
    assert given[0] in said and "--trace" in said


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("ATELIER_MODELS_DIR", "ATELIER_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    get_settings.cache_clear()
    yield tmp_path
    get_settings.cache_clear()


ON_CPU = ("--fleet", "cpu=1", "--rate", "1", "--duration", "20", "--policy", "clipper-ht", "--json")


def test_the_profile_beside_the_models_is_found_from_any_folder(elsewhere, capfd):
    assert run(*ON_CPU) == 0
    told = json.loads(capfd.readouterr().out)["run"]
    assert (told["profile"], told["is_example"]) == (str(ROOT / "zoo" / PROFILE), False)


def test_the_profile_of_the_data_folder_comes_first(elsewhere, capfd):
    (elsewhere / "data").mkdir()
    measured = read_measured(ROOT / "zoo" / PROFILE)
    write_measured(elsewhere / "data" / PROFILE, replace(measured, bounds={}))
    assert run(*ON_CPU) == 0
    assert json.loads(capfd.readouterr().out)["run"]["profile"] == f"data/{PROFILE}"


def test_a_level_that_the_profile_has_not_is_told_once(tmp_path, capfd):
    lines = [f'{{"prompt": "{name}", "quality": {{"sdxl": 0.5}}}}' for name in "ab"]
    (tmp_path / "prompts.jsonl").write_text("\n".join(lines))
    named = ("--prompts", str(tmp_path / "prompts.jsonl"), "--profile", str(EXAMPLE))
    assert run(*SMALL, "--policy", "clipper-ht", *named) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert said.count("Assumed: qualities of prompts at sdxl are without effect") == 1
    assert "the profile's levels are " in said and "sdxl@0" in said
