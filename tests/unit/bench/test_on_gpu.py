import math
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console

from bench import gpu_report
from bench.gpu_report import PARTS, run_all
from bench.on_gpu import needs
from bench.on_gpu.part import OVER, Part, run
from bench.on_gpu.write import write
from bench.parts.place import Place
from tests.unit.ops.compose import ROOT
from tests.unit.ops.extras import closure
from tests.unit.ops.test_images import IMPORT, missing_in

NAMES = ("told early", "told late")
#: What a machine for GPU runs has already, with all that torch asks for.
THERE = {"numpy", "pillow"}


def a_part(title="A part", budget_s=60.0, **changes):
    module = "tests.unit.bench.parts_of_tests"
    return Part(title=title, module=module, budget_s=budget_s, figures=NAMES, **changes)


def is_there(pid):
    try:
        return "sleep" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("title", "limit_s", "why_not"),
    [("A part", 60, None), ("fail", 60, "ValueError: no such thing"), ("hang", 10, OVER)],
)
def test_a_part_ends_by_its_time_and_what_it_told_is_kept(title, limit_s, why_not):
    outcome = run(a_part(title), limit_s, is_dry=False)
    assert outcome.why_not == why_not
    assert outcome.figures["told early"].value == 2.0
    assert outcome.missing() == (["told late"] if why_not else [])
    ends_at = time.monotonic() + 30
    while is_there(int(outcome.notes[0])) and time.monotonic() < ends_at:
        time.sleep(0.05)
    assert not is_there(int(outcome.notes[0])), "what a part has started outlives it"


def test_what_did_not_run_is_written_down_with_its_reason(tmp_path):
    parts = [a_part(), a_part(budget_s=-60), a_part(compiles=True)]
    outcomes = list(run_all(parts, Console(quiet=True), "no compiler", is_dry=False))
    text = write(outcomes, "here", tmp_path, is_dry=False).read_text()
    assert text.count("| told early | 2 s |") == text.count("| told late | 3 images/s |") == 1
    assert text.count("not run: no compiler |") == 2
    assert text.count("not run: the time of the whole run was over |") == 2
    assert (tmp_path / "images/gpu-figures.png").read_bytes().startswith(b"\x89PNG")


def test_all_parts_end_within_nine_minutes_with_time_to_install_and_write():
    assert sum(part.budget_s for part in PARTS) <= 9 * 60 - 45


def test_rounds_end_before_their_time():
    place = Place.of(is_dry=True, seconds=1000.0)
    assert list(place.rounds(3)) == [0]
    assert list(replace(place, ends_at=math.inf).rounds(3)) == [0, 1, 2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_without_a_gpu_it_says_what_to_do_instead(tmp_path):
    with pytest.raises(SystemExit, match="`make gpu DRY=1` runs the same code on a CPU"):
        gpu_report.main(dry=False, to=tmp_path)


MAKE = ("make", "-n", "--no-print-directory")  #: also where make runs the tests


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("gpu DRY=1", "--dry --to bench-samples"),
        ("gpu", "bench.gpu_report --to docs"),
        ("gpu-wheels", "bench.on_gpu.carry"),
    ],
)
def test_make_has_a_word_for_it(words, command):
    shown = subprocess.run([*MAKE, *words.split()], capture_output=True, text=True, cwd=ROOT)
    assert command in " ".join(shown.stdout.splitlines()[-1].split())


def test_what_compiling_needs_is_checked_first(monkeypatch, tmp_path):
    assert needs.packages() is None
    if needs.compiler() is None:  # a compiler and Python's headers are here
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        assert "set TMPDIR" in needs.compiler()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert "install gcc" in needs.compiler()


def wheels():
    return {canonicalize_name(name) for name in needs.WHEELS.read_text().split()}


def test_wheels_to_carry_are_pinned_and_torch_is_none_of_them():
    text = (ROOT / "constraints.txt").read_text()
    pinned = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", text, re.M)}
    assert wheels() <= pinned
    assert "torch" not in wheels()


def test_documents_tell_what_is_carried_and_that_nothing_has_been_measured_until_it_was():
    text = (ROOT / "docs" / "gpu.md").read_text()
    assert f"the {len(wheels())} packages of `gpu-wheels.txt`" in text
    assert ("None yet" in text) != (ROOT / "docs" / "gpu-figures.md").exists()
    for part in PARTS:
        assert f"| {part.title} | {part.budget_s:g} s |" in text


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_dry_run_makes_every_figure_with_nothing_but_torch_and_the_wheels(tmp_path):
    held = wheels() | THERE | closure([Requirement("torch")])
    refuse = IMPORT.replace("sys.argv[2]", repr(",".join(sorted(missing_in(held)))))
    (tmp_path / "sitecustomize.py").write_text(refuse.partition("for module in")[0])
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "bench.gpu_report", "--dry", "--to", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert ended.returncode == 0, ended.stderr[-3000:]
    text = (tmp_path / "gpu-figures.md").read_text()
    assert text.count("\n| ") == sum(1 + len(part.figures) for part in gpu_report.PARTS)
    assert "not run" not in text, text
