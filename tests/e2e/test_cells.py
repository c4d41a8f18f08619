"""Two whole services as cells, and the router before them: one is killed, is back, is evacuated."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from PIL import Image

from atelier_client import Client, JobStatus
from cli.client.picture import named
from cli.stack.ports import free_port
from cli.stack.process import ROOT
from cli.stack.running import Running, running
from core.cells.ids import cell_of
from tests.e2e.lean import NO_CONTROLNETS, one_model
from tests.e2e.waiting import made, make, until, until_written

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

KEYS = {f"key-{i}": f"tenant-{i}" for i in range(4)}


@dataclass
class Cells:
    """Two cells and a router."""

    folder: Path
    port: int = field(default_factory=free_port)
    ports: Mapping[str, int] = field(
        default_factory=lambda: {name: free_port() for name in ("eu", "us")}
    )
    cells: dict[str, Running] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, stack: ExitStack, name: str) -> None:
        models = self.folder / f"{name}-models"
        env = dict(NO_CONTROLNETS)
        if models.exists():
            env["ATELIER_MODELS_DIR"] = str(models)
        else:
            models.mkdir()
            env |= one_model(models)
        env |= {
            "ATELIER_CELL": name,
            "ATELIER_PUBLIC_URL": self.url,
            "ATELIER_API_KEYS": json.dumps(KEYS),
        }
        service = running(self.folder / name, port=self.ports[name], env=env)
        self.cells[name] = stack.enter_context(service)

    def kill(self, name: str) -> None:
        process = self.cells[name].process
        os.kill(process.pid, signal.SIGKILL)  # its programs die with it
        process.wait(10)

    @property
    def path(self) -> Path:
        return self.folder / "cells.json"

    def evacuate(self, name: str, heir: str) -> None:
        files = []
        for each in (name, heir):
            files.append(self.folder / f"{each}.env")
            facts = {
                "CELL": each,
                "REDIS_URL": self.cells[each].addresses.store,
                "DATA_DIR": self.folder / each,
                "URL_SECRET": "signs nothing here",
            }
            files[-1].write_text("".join(f"ATELIER_{k}={v}\n" for k, v in facts.items()))
        command = [sys.executable, "-m", "cli.main", "cells", "evacuate", *map(str, files)]
        subprocess.run([*command, "--file", str(self.path)], cwd=ROOT, check=True, timeout=400)

    def close(self, name: str) -> None:
        said = json.loads(self.path.read_text())
        said[name]["state"] = "closed"
        self.path.write_text(json.dumps(said))
        self.kill(name)

    @contextmanager
    def router(self) -> Iterator[None]:
        cells = {
            name: {"url": f"http://127.0.0.1:{port}", "weight": 1.0}
            for name, port in self.ports.items()
        }
        self.path.write_text(json.dumps(cells))
        env = os.environ | {
            "ATELIER_CELLS_FILE": str(self.path),
            "ATELIER_ROUTER_PORT": str(self.port),
            "ATELIER_API_KEYS": json.dumps(KEYS),
            "ATELIER_PUBLIC_URL": self.url,
        }
        with subprocess.Popen([sys.executable, "-m", "run.router"], cwd=ROOT, env=env) as process:
            try:
                yield
            finally:
                process.terminate()

    def health(self) -> Mapping[str, str]:
        try:
            return httpx.get(f"{self.url}/readyz").json()["cells"]
        except httpx.TransportError:
            return {}


@pytest.fixture(scope="module")
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def cells(tmp_path_factory, stack):
    cells = Cells(tmp_path_factory.mktemp("cells"))
    for name in cells.ports:
        cells.start(stack, name)
    stack.enter_context(cells.router())
    until(lambda: set(cells.health().values()) == {"ready"})
    return cells


@pytest.fixture
def clients(cells):
    with ExitStack() as stack:
        yield [stack.enter_context(Client(cells.url, key)) for key in KEYS]


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "template.png"
    Image.new("RGB", (64, 64), "red").save(path)
    return path


def test_jobs_are_made_polled_and_followed_wherever_the_plan_has_them_made(cells, clients):
    for client in clients:
        job = make(client, steps=4)
        assert job.status is JobStatus.SUCCEEDED
        assert client.images.fetch(job.images[0])[:4] == b"\x89PNG"
        assert [each.id for each in client.jobs.list().data] == [job.id]
        following = client.jobs.create(prompt="a blue square", steps=4)
        assert list(client.jobs.stream(following.id))[-1].job is not None
        assert {cell_of(job.id), cell_of(following.id)} <= set(cells.ports)


def test_what_a_tenant_keeps_is_kept_at_its_home(cells, clients, template):
    homes = [{cell_of(client.templates.add(template).id) for _ in range(3)} for client in clients]
    assert [len(each) for each in homes] == [1] * len(clients)
    assert set.union(*homes) == set(cells.ports)


def test_an_edit_is_made_where_its_template_is_kept(clients, template, tmp_path):
    mask = tmp_path / "mask.png"
    Image.new("L", (64, 64), 255).save(mask)
    for client in clients[:3]:
        kept = client.templates.add(template)
        job = make(client, task="edit", template=kept.id, mask=named(str(mask)), steps=4)
        assert job.status is JobStatus.SUCCEEDED, job.error
        assert cell_of(job.id) == cell_of(kept.id)


def test_a_cell_that_is_killed_loses_no_job_and_its_tenants_go_elsewhere(
    cells, clients, stack, template
):
    accepted = [
        (client, client.jobs.create(prompt="a red circle", steps=30, quality="exact"))
        for client in clients
    ]
    ours = [(client, job) for client, job in accepted if cell_of(job.id) == "us"]
    assert ours
    until_written(cells.cells["us"].addresses.store)
    cells.kill("us")
    client, job = ours[0]
    key = list(KEYS)[clients.index(client)]
    bearer = {"Authorization": f"Bearer {key}"}
    answer = httpx.get(f"{cells.url}/v1/jobs/{job.id}", headers=bearer)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    again = client.jobs.create(prompt="a red circle", steps=4)
    assert cell_of(again.id) == "eu"
    assert made(client, again.id).status is JobStatus.SUCCEEDED
    cells.start(stack, "us")
    until(lambda: cells.health().get("us") == "ready")
    for client, job in accepted:
        assert made(client, job.id, within_s=300).status is JobStatus.SUCCEEDED
    assert cell_of(ours[0][0].templates.add(template).id) == "us"


def test_a_cell_is_evacuated_while_its_jobs_wait_and_then_nobody_misses_it(
    cells, clients, template, tmp_path
):
    kept = [(client, client.templates.add(template)) for client in clients]
    ours = [(client, each) for client, each in kept if cell_of(each.id) == "us"]
    asked = {"prompt": "a blue square", "steps": 20, "quality": "exact"}
    accepted = [(client, client.jobs.create(**asked)) for client in clients for _ in range(2)]
    assert {cell_of(job.id) for _, job in accepted} == {"eu", "us"}
    cells.evacuate("us", heir="eu")
    for client, job in accepted:
        if cell_of(job.id) == "us":
            assert client.jobs.get(job.id).status is JobStatus.SUCCEEDED
    mask = tmp_path / "mask.png"
    Image.new("L", (64, 64), 255).save(mask)
    client, mine = ours[0]
    edit = make(client, task="edit", template=mine.id, mask=named(str(mask)), steps=4)
    assert (edit.status, cell_of(edit.id)) == (JobStatus.SUCCEEDED, "eu")
    cells.close("us")
    until(lambda: "us" not in cells.health())
    for client, mine in ours:
        assert client.templates.get(mine.id).created_at == mine.created_at
        assert [each.id for each in client.templates.list().data].count(mine.id) == 1
        assert cell_of(client.jobs.create(**asked).id) == "eu"
