from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = [
    "api",
    "scheduler",
    "scheduler/policy",
    "tasks",
    "worker",
    "worker/affinity",
    "worker/families",
    "worker/lora",
    "worker/masking",
    "worker/control",
    "worker/parallel",
    "storage",
    "core",
]


@pytest.mark.parametrize("room", [*ROOMS, "loadgen", "cli", "zoo", "bench"])
def test_every_file_has_its_sentence_in_the_structure(room: str) -> None:
    text = (ROOT / "docs/structure.md").read_text()
    section = text.split(f"### `{room}/`", 1)[1].split("###", 1)[0]
    modules = {f.stem for f in (ROOT / room).glob("*.py")} - {"__init__"}
    assert {m for m in modules if f"- `{m}` " not in section} == set()
