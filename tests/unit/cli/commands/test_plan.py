"""`atelier plan`: the cheapest fleet, why there is none, or one sentence of what is wrong."""

import json
import re
import shlex
from pathlib import Path

import pytest
import structlog

from cli.main import main

LOAD = ("--rate", "1", "--duration", "60")
SMALL = ("--days", "1", "--trials", "8", "--max-late", "0.2")
GOAL = (*SMALL, "--policy", "clipper-ht", "--min-quality", "0.7", "--slo", "12.6")
RUN = (*LOAD, *GOAL)
DOCS = Path(__file__).parents[4] / "docs/sizing.md"


@pytest.fixture(autouse=True)
def logs_as_they_were():
    yield
    structlog.reset_defaults()


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["plan", *arguments])
    return int(end.value.code or 0)


def test_the_answer_is_json(capfd):
    assert run(*RUN, "--price", "h200=3.5,l40s=.9", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["fleet"]["l40s"] >= 1
    assert found["price_per_hour"] == pytest.approx(0.9 * found["fleet"]["l40s"])
    assert found["late"]["high"] <= 0.2
    assert found["run"]["is_example"]


def test_a_person_reads_a_sentence_and_what_was_tried_and_gets_a_page(tmp_path, capfd):
    assert run(*RUN, "--price", "l40s=.9", "--out", str(tmp_path)) == 0
    said = capfd.readouterr().out
    assert re.search(r"\d+ \u00d7 l40s keeps 80\u202f% of the jobs within 12.6\u202fs", said)
    assert "keeps both" in said and "example" in said
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"report.{kind}" for kind in ("html", "png", "json", "csv")}


def test_no_fleet_is_exit_status_one_and_says_what_would_help(capfd):
    assert run(*RUN, "--price", "l40s=.9", "--slo", "1") == 1
    said = " ".join(capfd.readouterr().out.split())
    assert "No fleet keeps" in said and "What would help: --slo " in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--price", "h200"), "price: 'h200' is not TYPE=PRICE"),
        (("--price", "h200=x"), "price: 'h200=x' is not TYPE=PRICE"),
        (("--price", "h200=nan"), "price: h200: nan must be above 0"),
        (("--price", "h200=-1"), "price: h200: -1 must be above 0"),
        (("--price", "h200=1,h200=2"), "price: 'h200' is there twice"),
        (("--price", "h200=1e300"), "price: h200: 1e300 must be above 0, 1e-06 to 1e+09"),
        (("--price", "tpu=1"), "price: the profile knows no 'tpu'"),
        (("--slo", "inf"), "'--slo'"),
        (("--max-late", "nan"), "'--max-late'"),
        (("--slo", "1e16"), "'--slo'"),
        (("--seed", "-1"), "'--seed'"),
        (("--policy", "none"), "value: policy: 'none' is none of atelier, "),
        (("--trace", "bad"), "trace: line 3: at"),
        (("--profile", "bad"), "profile: "),
        (("--prompts", "bad"), "prompts: line 1: quality.sdxl@0"),
        (("--trace", "empty"), "trace: it asks for nothing"),
    ],
)
def test_what_is_malformed_is_refused_by_one_sentence(arguments, words, tmp_path, capfd):
    bad = {
        "--trace": "at,prompt\n5,a\n1,b\n",
        "--profile": "{",
        "--prompts": '{"prompt": "a", "quality": {"sdxl@0": 2}}\n',
    }
    option, value = arguments
    if value in {"bad", "empty"}:
        path = tmp_path / "given"
        path.write_text("at\n" if value == "empty" else bad[option])
        value = str(path)
    base = GOAL if option == "--trace" else RUN
    assert run(*base, "--price", "l40s=.9", option, value) == 2
    said = " ".join(capfd.readouterr().err.replace("\u2502", " ").split())
    assert words in said
    assert "Traceback" not in said


EXAMPLES = re.findall(r"^atelier plan (.+)$", DOCS.read_text(), re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_the_docs_show_runs_at_a_small_size(example, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    lines = ["at", *(str(at) for at in range(0, 60, 2))]
    Path("day.csv").write_text("\n".join(lines))
    load = () if "--trace" in example else LOAD
    small = (*load, *SMALL, "--policy", "clipper-ht", "--min-quality", "0.5", "--busiest", "60")
    assert run(*shlex.split(example), *small) == 0
    assert not capfd.readouterr().err.startswith("Usage")


def test_the_docs_show_examples():
    assert len(EXAMPLES) >= 2


def test_what_draws_arrivals_is_refused_beside_a_trace(tmp_path, capfd):
    (tmp_path / "day.csv").write_text("at\n0\n")
    assert run(*RUN, "--price", "l40s=.9", "--trace", str(tmp_path / "day.csv")) == 2
    said = capfd.readouterr().err
    assert "--rate" in said and "--trace" in said


def test_the_profile_beside_the_models_is_found_from_any_folder(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run(*RUN, "--price", "cpu=.1", "--slo", "60", "--json") in (0, 1)
    assert not json.loads(capfd.readouterr().out)["run"]["is_example"]
