import json
import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from cli.stack.running import running
from core.model import Model
from tests.e2e.lean import paced_models
from tests.e2e.waiting import until
from tests.rig import save_model

pytestmark = pytest.mark.e2e


def up(*arguments, **env):
    command = [sys.executable, "-m", "cli.main", "up", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=180, env={**os.environ, **env}
    )


@pytest.mark.long
def test_up_ends_with_one_and_the_log_when_a_program_does_not_start(tmp_path):
    ended = up("--port", "0", "--data-dir", str(tmp_path), ATELIER_POLICY="no such policy")
    assert ended.returncode == 1
    assert "scheduler ended at its start" in ended.stderr
    assert "no such policy" in ended.stderr
    assert "Traceback" not in ended.stderr
    for secret in json.loads((tmp_path / "secrets.json").read_text()).values():
        assert secret not in ended.stdout + ended.stderr


def test_up_on_a_port_that_is_taken_says_so(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = up("--port", str(port), "--data-dir", str(tmp_path))
    assert ended.returncode == 1
    assert f"port {port} for api" in ended.stderr


def test_up_with_a_setting_that_cannot_work_names_it(tmp_path):
    ended = up("--data-dir", str(tmp_path), ATELIER_URL_TTL_S="soon")
    assert ended.returncode == 1
    assert "ATELIER_URL_TTL_S" in ended.stderr


def test_a_signal_during_the_start_stops_what_runs(tmp_path):
    command = [sys.executable, "-m", "cli.main", "up", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        assert "store is ready" in started.stderr.readline()
        started.send_signal(signal.SIGTERM)
        rest = started.stderr.read()
    assert started.returncode == 0
    assert re.search(r"stopped\n$", rest)


@pytest.mark.parametrize("name", ["up", "submit"])
def test_the_entry_point_runs_as_a_module(name):
    command = [sys.executable, "-m", "cli.main", name, "--help"]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def test_up_is_ready_whatever_its_models_take_and_jobs_wait_for_theirs(tmp_path):
    """A load of a quarter of an hour, and a model that cannot be loaded."""
    models = tmp_path / "models"
    save_model(models, Model(name="broken", family="sdxl"))
    (models / "broken" / "model_index.json").write_text("{}")
    env = paced_models(models, heavy=900.0)
    with running(tmp_path / "data", env=env) as service:
        api = service.addresses.api
        until(lambda: httpx.get(f"{api}/readyz").status_code == 200)
        asked = {"prompt": "a red circle", "model": "heavy"}
        job = httpx.post(f"{api}/v1/jobs", json=asked).json()
        assert job["status"] == "queued" and job["eta_s"] > 800.0

        def loading():
            workers = httpx.get(f"{api}/v1/fleet").json()["workers"]
            loads = [worker["loading"] for worker in workers if worker["loading"]]
            return any((load["model"], load["stage"]) == ("heavy", "reading") for load in loads)

        until(loading)
        assert service.process.poll() is None
