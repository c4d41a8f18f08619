"""The examples of the client's README run against a service."""

import asyncio
import re
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn

import atelier_client
from cli.stack.ports import free_port
from run.api import create_app
from storage.objects.directory import DirectoryStore
from tests.unit.api.conftest import Stack
from tests.unit.api.facades.worker import worker
from tests.unit.api.pictures import a_mask, a_photo
from tests.unit.api.routes.test_loras import SMALL, a_file
from tests.unit.ops.compose import ROOT

README = (ROOT / "atelier_client/README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)


@asynccontextmanager
async def serving(stack, port):
    app = create_app(stack.settings, stack.open_services)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        await task


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with what the examples read."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "photo.png").write_bytes(a_photo())
    (folder / "mask.png").write_bytes(a_mask())
    (folder / "style.safetensors").write_bytes(a_file())
    monkeypatch.chdir(folder)
    return folder


async def test_the_examples_of_the_readme_run_as_they_stand(tmp_path, folder, monkeypatch, capsys):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("ATELIER_URL", url)
    stack = Stack(tmp_path, public_url=url)
    stack.shapes |= {"small": SMALL, "large": SMALL}
    stack.objects = DirectoryStore(tmp_path, public_url=url, secret=b"secret")
    program = "\n".join(EXAMPLES).replace("http://127.0.0.1:8000", url)
    program = program.replace("asyncio.run(main())", "")

    def run():
        names = {"__name__": "readme"}
        exec(compile(program, "README.md", "exec"), names)
        names["client"].close()
        asyncio.run(names["main"]())
        assert names["receive"](b"{}", {}) == 400

    async with serving(stack, port), worker(stack):
        await asyncio.to_thread(run)
    assert {path.name for path in folder.glob("circle-*")} == {"circle-0.png", "circle-1.png"}
    told = capsys.readouterr().out
    assert "n must be" in told or "\nn " in told  # the refusal names its fields
    assert "3 made" in told


def test_what_the_readme_names_is_there():
    client = atelier_client.Client(transport=httpx.MockTransport(lambda request: None))
    named = re.findall(r"client\.(\w+)(?:\.(\w+))?", README)
    assert len(named) > 15
    for resource, method in named:
        assert hasattr(getattr(client, resource), method or "__class__")
