"""The API is what its description says: drawn cases, and a client generated from it."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1800)]


def test_a_live_service_keeps_to_its_description_and_a_generated_client_lives_on_it():
    command = [sys.executable, "-m", "bench.conformance", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stdout + done.stderr
