from pathlib import Path
from typing import Any

import pytest

from bench.mutants import ROOT, unknown
from bench.mutate.areas import AREAS, EQUIVALENT
from bench.mutate.forked import ForkedTests, Limits
from bench.mutate.lua import lua_mutants
from bench.mutate.mutant import Mutant
from bench.mutate.order import Observer, Order, read_observed
from bench.mutate.python import python_changes, python_mutants
from bench.mutate.session import change, functions_of, is_function

PYTHON = '''
LIMIT: int = 3


@cache
def first(values: list[int] | None, most: int = 9) -> int:
    """Say which is first."""
    log.info("asked", most=most)
    assert most > 0 and zip(values, values, strict=True)
    if values and len(values) < most:
        self.asked += 1
        return min(values) - 1
    return 0
'''
LUA = """-- Count what is above 3.
local function above(id)
  if r[1] == 'a >= b' and tonumber(r[2]) > 3 then
    redis.call('HSET', id,
      'n', 1)
    count('above')
  end
end
"""


def changes(mutants: list[Mutant]) -> set[str]:
    return {f"{mutant.before} -> {mutant.after}" for mutant in mutants}


def test_each_mutant_of_python_is_one_change_of_what_the_code_does() -> None:
    found = python_mutants("m.py", PYTHON)
    assert changes(found) == {
        "values and len(values) < most -> not (values and len(values) < most)",
        "values and len(values) < most -> values or len(values) < most",
        "len(values) < most -> len(values) <= most",
        "self.asked += 1 -> pass",
        "self.asked += 1 -> self.asked += 2",
        "self.asked += 1 -> self.asked += 0",
        "min(values) - 1 -> min(values) - 2",
        "min(values) - 1 -> min(values) - 0",
        "return min(values) - 1 -> return None",
        "min(values) - 1 -> min(values) + 1",
        "min(values) -> max(values)",
        "return 0 -> return None",
        "return 0 -> return 1",
        "return 0 -> return -1",
    }
    assert len({mutant.source for mutant in found}) == len(found)
    assert {mutant.scope for mutant in found} == {"first"}
    assert {mutant.change for mutant in found} == python_changes(PYTHON)
    assert [mutant.line for mutant in found] == sorted(mutant.line for mutant in found)


def test_each_mutant_of_lua_is_one_change_outside_of_strings_and_comments() -> None:
    head = "if r[1] == 'a >= b' and tonumber(r[2]) > 3 then"
    assert changes(lua_mutants("m.lua", LUA)) == {
        f"{head} -> {head.replace('==', '~=')}",
        f"{head} -> {head.replace(' and ', ' or ')}",
        f"{head} -> {head.replace('> 3', '>= 3')}",
        f"{head} -> {head.replace('> 3', '> 4')}",
        "redis.call('HSET', id, 'n', 1) -> nothing",
        "'n', 1) -> 'n', 2)",
        "count('above') -> nothing",
    }


def test_a_file_that_was_changed_is_as_it_was_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("a = 1\n")
    tests = ForkedTests(tmp_path)
    with tests.changed("m.py", "a = 2\n"):
        assert file.read_text() == "a = 2\n"
        changed_at = file.stat().st_mtime
    assert file.read_text() == "a = 1\n"
    assert file.stat().st_mtime != changed_at, "or Python would take the mutant from its cache"


SCOPES = """
class Box:
    make = lambda self: 1
    @property
    def size(self): return 2
    @size.setter
    def size(self, value): self.value = value
    def total(self):
        def add(one): return one + self.make()
        return [add(each) for each in (1, 2)]
"""


def test_functions_take_the_code_of_another_source_in_their_place(tmp_path: Path) -> None:
    file, names = str(tmp_path / "box.py"), dict[str, Any]()
    exec(compile(SCOPES, file, "exec"), names)
    box, functions = names["Box"](), functions_of(file)
    other = SCOPES.replace("1\n", "5\n").replace("return 2", "return 6").replace("(1, 2)", "(3,)")
    change(functions, other, file)
    box.size = 9
    assert (box.make(), box.size, box.value, box.total()) == (5, 6, 9, [8])
    with pytest.raises(IndexError):
        change(functions, "class Box: ...", file)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [("Box", False), ("Box.total", True), ("Box.total.add", True), ("script", False), ("", False)],
)
def test_only_what_lies_in_a_function_is_changed_in_its_place(scope: str, expected: bool) -> None:
    assert is_function(SCOPES, scope) is expected


def run(tests: ForkedTests, *plugins: object) -> None:
    tests.start(["test_count.py"], Limits(), *plugins).wait()


def test_tests_that_enter_what_was_changed_run_first_and_of_these_the_fastest(
    tmp_path: Path,
) -> None:
    (tmp_path / "count.py").write_text("class Count:\n    def one(self):\n        return 1\n")
    (tmp_path / "test_count.py").write_text(
        "import time, count\n"
        "def say(name):\n"
        "    with open('said', 'a') as said: said.write(name + ' ')\n"
        "def test_other(): say('other')\n"
        "def test_slow():\n"
        "    now = time.monotonic\n"
        "    time.monotonic = lambda: now() + 60  # this takes a minute\n"
        "    count.Count().one(); say('slow')\n"
        "def test_fast(): count.Count().one(); say('fast')\n"
    )
    tests, found = ForkedTests(tmp_path), tmp_path / "observed.json"
    run(tests, Observer(tmp_path / "count.py", found))
    run(tests, Order(read_observed(found), "Count.one"))
    assert (tmp_path / "said").read_text() == "other slow fast fast slow other "


@pytest.mark.parametrize("area", AREAS)
def test_every_file_that_the_tables_name_is_there(area: str) -> None:
    for subject in AREAS[area]:
        assert all((ROOT / name).is_file() for name in (subject.path, *subject.tests))
    assert {subject.path for subjects in AREAS.values() for subject in subjects} >= set(EQUIVALENT)


def test_every_change_that_is_said_to_be_unseen_is_still_made() -> None:
    assert unknown(EQUIVALENT) == []
