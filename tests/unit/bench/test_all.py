"""All benches in a row, each of which takes the same two options."""

import ast
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer import BadParameter

from bench.__main__ import names, run_all, run_one, table_of
from bench.gpu_report import PARTS, chosen

ROOT = Path(__file__).parents[3]
BENCHES = sorted(p.stem for p in (ROOT / "bench").glob("*.py") if not p.stem.startswith("__"))
HELD = {"ok": True, "value": 1.0, "unit": "s", "bar": "<= 2"}


def parameters(name):
    tree = ast.parse((ROOT / "bench" / f"{name}.py").read_text())
    (main,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "main"]
    return {each.arg for each in main.args.args}


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_can_be_quick_and_tell_one_object(name):
    assert "quick" in parameters(name)
    assert {"json", "as_json"} & parameters(name)


def test_what_takes_an_hour_is_run_by_hand():
    assert set(BENCHES) - set(names()) == {
        "conformance",
        "gpu",
        "gpu_adapters",
        "gpu_report",
        "mutants",
        "soak",
    }


def test_a_bench_that_fails_keeps_none_of_the_others_from_theirs():
    def run(name):
        if name == "raises":
            raise ZeroDivisionError("[/no markup]")
        if name == "exits":
            raise SystemExit(2)
        return {"a figure": HELD}

    said = StringIO()
    console = Console(file=said, width=200)
    outcome = run_all(["raises", "exits", "tells"], run, console)
    assert outcome.failed == ["raises", "exits"]
    assert not outcome.has_missed
    console.print(table_of(outcome))
    assert "bench.raises failed: [/no markup]" in said.getvalue()
    assert "a figure" in said.getvalue() and said.getvalue().count("FAILED") == 2


def test_a_bench_that_tells_no_figures_says_how_it_ended():
    with pytest.raises(RuntimeError, match=r"it ended with 1:(.|\n)*No module named bench.missing"):
        run_one("missing", is_quick=True)


def test_a_quick_run_on_a_gpu_is_its_first_part_unless_others_are_named():
    assert chosen([], is_quick=False) == PARTS
    assert chosen([], is_quick=True) == PARTS[:1]
    assert chosen(["Compiled"], is_quick=True) == [PARTS[-1]]
    with pytest.raises(BadParameter, match="no part is called Other"):
        chosen(["Other"], is_quick=False)
