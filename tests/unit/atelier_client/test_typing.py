"""What a type checker tells a user of the client."""

import pytest
from mypy import api

from tests.unit.ops.compose import ROOT

PROGRAM = """
from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from atelier_client import AsyncClient, Client, Event, Job, Reply
from atelier_client.types.kept import Lora, Page

client, waiting = Client(), AsyncClient()
assert_type(client.images.generate("x", seed=3), Job)
assert_type(client.jobs.get.raw("id"), Reply[Job])
assert_type(client.loras.list(), Page[Lora])
assert_type(client.loras.all(), Iterator[Lora])
assert_type(client.jobs.stream("id"), Iterator[Event])

async def main() -> None:
    assert_type(await waiting.images.generate("x"), Job)
    assert_type(await waiting.loras.get("id"), Lora)
    assert_type(waiting.jobs.stream("id"), AsyncIterator[Event])
"""
WRONG = """
from atelier_client import Client

Client().images.generate("x", sed=3)
Client().images.generate("x", output_format="gif")
Client().jobs.get(7)
"""


@pytest.mark.long
def test_a_checker_knows_what_each_method_takes_and_gives(tmp_path, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(ROOT))

    def checked(program):
        (tmp_path / "program.py").write_text(program)
        told, _, _ = api.run(["--strict", "--config-file=", str(tmp_path / "program.py")])
        return [line for line in told.splitlines() if "program.py" in line and "error" in line]

    assert checked(PROGRAM) == []
    assert [line.split(":")[1] for line in checked(WRONG)] == ["4", "5", "6"]
