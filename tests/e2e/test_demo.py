import os
import subprocess
import sys

import pytest

from tests.e2e.lean import NO_CONTROLNETS

pytestmark = pytest.mark.e2e


@pytest.mark.long
def test_a_demo_that_cannot_start_says_why_and_keeps_the_logs(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "zoo.demo.demo", "--out", str(tmp_path)],
        env={**os.environ, "ATELIER_POLICY": "no such policy"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 1
    assert "no such policy" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "logs" / "scheduler.log").exists()


@pytest.mark.long
def test_a_demo_whose_job_fails_ends_with_one_and_stops_the_service(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "zoo.demo.demo", "--out", str(tmp_path), "--per-level", "1"],
        env={**os.environ, **NO_CONTROLNETS, "ATELIER_MAX_PROMPT_CHARS": "5"},
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert ended.returncode == 1
    assert "prompt" in ended.stderr
    assert "stopped" in ended.stderr
