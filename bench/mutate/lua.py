"""Make the mutants of a Lua script: one small change each. Pure."""

import re
from collections.abc import Iterator

from bench.mutate.mutant import Mutant

#: A statement that may be left out: a call, or a field that is set.
_CALL = re.compile(r"^\s*(redis\.call|count|emit|post|withdraw|requeue|stop|bury|close)\(")
#: What is swapped, found outside of strings and comments.
_SWAPS = (
    (re.compile(r"=="), "~="),
    (re.compile(r"~="), "=="),
    (re.compile(r">="), ">"),
    (re.compile(r"<="), "<"),
    (re.compile(r"(?<![<>=~-])>(?!=)"), ">="),
    (re.compile(r"(?<![<>=~-])<(?!=)"), "<="),
    (re.compile(r"\band\b"), "or"),
    (re.compile(r"\bor\b"), "and"),
    (re.compile(r"\bnot "), ""),
    (re.compile(r"(?<= )\+(?= )"), "-"),
    (re.compile(r"(?<= )-(?= )"), "+"),
)
_NUMBER = re.compile(r"(?<![\w.\[])-?\d+(?![\w\]])")
_STRING = re.compile(r"'[^']*'")


def lua_mutants(path: str, source: str) -> list[Mutant]:
    """Make every mutant of one script, in the order of its lines."""
    lines, scope, found = source.split("\n"), "", []
    for number, line in enumerate(lines):
        if named := re.match(r"local function (\w+)", line):
            scope = named[1]
        elif line and not line.startswith((" ", "end")):
            scope = ""
        for count, changed in _changes(lines, number):
            mutated = "\n".join([*lines[:number], changed, *lines[number + count :]])
            before = " ".join(" ".join(lines[number : number + count]).split())
            after = changed.strip() or "nothing"
            if before != after:
                found.append(
                    Mutant(
                        path=path,
                        line=number + 1,
                        scope=scope or "script",
                        before=before,
                        after=after,
                        source=mutated,
                    )
                )
    return found


def _changes(lines: list[str], number: int) -> Iterator[tuple[int, str]]:
    """Give, for the statement that begins at a line, how many lines become which one."""
    line = lines[number]
    if not line.strip() or line.strip().startswith("--"):
        return
    if _CALL.match(line):
        yield _length(lines, number), ""
    bare = _STRING.sub(lambda text: "'" + "_" * (len(text[0]) - 2) + "'", line)
    for pattern, other in _SWAPS:
        for hit in pattern.finditer(bare):
            yield 1, line[: hit.start()] + other + line[hit.end() :]
    for hit in _NUMBER.finditer(bare):
        yield 1, line[: hit.start()] + str(int(hit[0]) + 1) + line[hit.end() :]


def _length(lines: list[str], number: int) -> int:
    """Count the lines until the parentheses of a call are closed."""
    depth = 0
    for count, line in enumerate(lines[number:], 1):
        bare = _STRING.sub("''", line)
        depth += bare.count("(") - bare.count(")")
        if depth <= 0:
            return count
    return 1
