import json
import os
import subprocess
import sys

import httpx
import pytest

from cli.stack.running import running
from tests.e2e.lean import paced_models
from tests.e2e.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.long]

OPERATOR = "the operator's own long random key"


def atelier(api, *arguments):
    env = {**os.environ, "ATELIER_URL": api, "ATELIER_API_KEY": OPERATOR}
    command = [sys.executable, "-m", "cli.main", "keys", *arguments, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def test_a_key_is_made_used_rotated_and_revoked_while_the_service_runs(tmp_path):
    env = paced_models(tmp_path / "models", quick=0.1)
    env |= {"ATELIER_OPERATOR_KEYS": json.dumps([OPERATOR])}
    with running(tmp_path / "data", env=env) as service:
        api = service.addresses.api

        def asked(key):
            return httpx.get(f"{api}/v1/jobs", headers=bearer(key)).status_code

        made = atelier(api, "add", "acme", "--name", "website", "--expires", "30d")
        job = httpx.post(
            f"{api}/v1/jobs", json={"prompt": "a red circle"}, headers=bearer(made["key"])
        )
        assert job.status_code == 202, job.text
        url = f"{api}/v1/jobs/{job.json()['id']}"
        until(lambda: httpx.get(url, headers=bearer(made["key"])).json()["status"] == "succeeded")
        assert httpx.get(f"{api}/v1/fleet", headers=bearer(made["key"])).status_code == 403

        heir = atelier(api, "rotate", made["id"], "--overlap", "1h")
        assert httpx.get(url, headers=bearer(heir["key"])).status_code == 200
        assert asked(made["key"]) == 200

        atelier(api, "revoke", made["id"])
        until(lambda: asked(made["key"]) == 401)
        assert asked(heir["key"]) == 200
        listed = atelier(api, "list", "--tenant", "acme")["data"]
        assert [each["status"] for each in listed] == ["active", "revoked"]
        for key in (made["key"], heir["key"]):
            assert key not in json.dumps(listed)
