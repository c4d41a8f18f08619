"""What real processes log: JSON, each line with its time, level and process, and of jobs whose."""

import json
from pathlib import Path

import pytest

from tests.e2e.waiting import made, until

pytestmark = pytest.mark.e2e

#: Programs of others, which log as they do.
OTHERS = {"store"}
EACH = {"timestamp", "level", "event", "process"}
#: Nobody listens there: the delivery fails, and the CPU worker says so.
HOOK = {"url": "http://127.0.0.1:9/hook", "events": ["completed"]}


def lines(service):
    """Read what each program logged, by name."""
    for path in sorted(Path(service.addresses.logs).glob("*.log")):
        if path.stem not in OTHERS:
            for line in path.read_text().splitlines():
                yield path.stem, line


def test_every_line_is_json_and_those_about_jobs_say_whose_they_are(service, client):
    asked = {"prompt": "a red circle", "steps": 4, "width": 64, "height": 64}
    job = client.jobs.create(**asked, webhook=HOOK)
    assert made(client, job.id).status == "succeeded"

    def names_it(program):
        return any(f'"{job.id}"' in line for name, line in lines(service) if name == program)

    assert names_it("api")
    until(lambda: names_it("cpu"))
    told = [(name, json.loads(line)) for name, line in lines(service)]
    secrets = json.loads(Path(service.addresses.secrets).read_text())
    logs = "\n".join(line for _, line in lines(service))
    assert [name for name, value in secrets.items() if value in logs] == []
    assert {name for name, _ in told} >= {"api", "scheduler", "cpu", "worker-1"}
    for name, event in told:
        assert event.keys() >= EACH, (name, event)
        assert "job" not in event or event.get("tenant"), (name, event)
