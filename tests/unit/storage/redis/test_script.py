import re
from importlib.resources import files

import pytest

from storage.redis.script import REFUSED_WITHOUT_MEMORY, load

FOLDER = files("storage.redis").joinpath("scripts")
NAMES = sorted(f.name.removesuffix(".lua") for f in FOLDER.iterdir() if f.name.endswith(".lua"))
TRANSITIONS = [name for name in NAMES if name != "prelude"]


@pytest.mark.parametrize("name", TRANSITIONS)
def test_every_script_says_what_it_does_and_takes(name: str) -> None:
    head = FOLDER.joinpath(f"{name}.lua").read_text("utf-8").split("\nlocal ")[0]
    assert head.startswith("-- ")
    assert "-- KEYS none. ARGV: 1 " in head


@pytest.mark.parametrize("name", TRANSITIONS)
def test_no_argument_is_used_that_is_not_described(name: str) -> None:
    text = FOLDER.joinpath(f"{name}.lua").read_text("utf-8")
    for number in {int(n) for n in re.findall(r"ARGV\[(\d+)\]", text)}:
        assert re.search(rf"(ARGV: |, |\n--   ){number} ", text), f"ARGV[{number}] of {name}"


def test_a_script_is_loaded_with_the_prelude_and_known_by_its_digest() -> None:
    script, prelude = load("claim"), FOLDER.joinpath("prelude.lua").read_text("utf-8")
    assert script.source.startswith(prelude)
    assert load("submit").source.startswith(prelude.partition("\n")[2])
    assert len(script.sha) == 40 and script.sha != load("beat").sha
    assert load("claim") is script


@pytest.mark.parametrize("name", TRANSITIONS)
def test_without_memory_a_script_runs_unless_it_takes_in_something_new(name: str) -> None:
    head = load(name).source.partition("\n")[0]
    assert (head == "#!lua flags=allow-oom") == (name not in REFUSED_WITHOUT_MEMORY)
    assert set(TRANSITIONS) >= REFUSED_WITHOUT_MEMORY


def test_no_script_reads_a_clock_but_the_servers() -> None:
    for name in NAMES:
        text = FOLDER.joinpath(f"{name}.lua").read_text("utf-8")
        assert "os.time" not in text and "os.clock" not in text
