import re
from importlib.resources import files

import pytest

from storage.redis.script import REFUSED_WITHOUT_MEMORY, link, load

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


def test_a_script_is_known_by_its_digest() -> None:
    script = load("claim")
    assert len(script.sha) == 40 and script.sha != load("beat").sha
    assert load("claim") is script


PRELUDE = """-- What all share.
local one = 1

-- Uses one: not at all.
local function two(a)
  -- and three
  return a + one
end

local table = {
  'three', two}
local function three() return table end
"""


@pytest.mark.parametrize(
    ("body", "used"),
    [
        ("return 0", []),
        ("-- one of them\nreturn 0", []),
        ("return one", ["one"]),
        ("return ones + two2", []),
        ("return two(1)", ["one", "two"]),
        ("return three()", ["one", "two", "table", "three"]),
        ("return table, one", ["one", "two", "table", "three"]),  # named in a text: no harm
    ],
)
def test_a_script_comes_with_what_it_uses_and_what_that_uses(body: str, used: list[str]) -> None:
    source = link(PRELUDE, body)
    assert source.endswith(body)
    assert re.findall(r"^local (?:function )?(\w+)", source, re.MULTILINE) == used
    assert ("return a + one\nend\n" in source) == ("two" in used)
    assert ("'three', two}\n" in source) == ("table" in used)


def test_what_is_used_rarely_is_made_where_it_is_called() -> None:
    body = "local function f()\n  -- rarely: three\n  return three()\nend\nreturn two(f())\n"
    before, inside = link(PRELUDE, body).split("local function f()\n")
    assert re.findall(r"^local (?:function )?(\w+)", before, re.MULTILINE) == ["one", "two"]
    assert re.findall(r"^local (?:function )?(\w+)", inside, re.MULTILINE) == ["table", "three"]
    assert inside.endswith("  return three()\nend\nreturn two(f())\n")


def test_every_definition_of_the_prelude_is_found_and_used() -> None:
    text = FOLDER.joinpath("prelude.lua").read_text("utf-8")
    for line in text.splitlines():
        assert re.match(r"local (function \w+\(|\w+ = )|end$|  |--|$", line), line
    names = re.findall(r"^local (?:function )?(\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names))
    linked = {name: load(name).source for name in TRANSITIONS}
    for name in names:
        assert any(re.search(rf"^local (function )?{name}\b", s, re.M) for s in linked.values()), (
            name
        )


def test_a_script_that_needs_no_clock_asks_for_none() -> None:
    assert "TIME" in load("claim").source
    assert "TIME" not in load("isolate").source


@pytest.mark.parametrize("name", TRANSITIONS)
def test_without_memory_a_script_runs_unless_it_takes_in_something_new(name: str) -> None:
    head = load(name).source.partition("\n")[0]
    assert (head == "#!lua flags=allow-oom") == (name not in REFUSED_WITHOUT_MEMORY)
    assert set(TRANSITIONS) >= REFUSED_WITHOUT_MEMORY


def test_no_script_reads_a_clock_but_the_servers() -> None:
    for name in NAMES:
        text = FOLDER.joinpath(f"{name}.lua").read_text("utf-8")
        assert "os.time" not in text and "os.clock" not in text
