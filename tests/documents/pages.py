"""Blocks and commands of README and docs."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.map import ROOT

NAMES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in NAMES), *sorted((ROOT / "docs").rglob("*.md"))]
#: Languages of blocks that a reader types or runs.
SHELL, PYTHON = "bash", "python"
#: Of blocks that are read: what is answered, files, formulas.
READ = ("console", "ini", "json", "text", "yaml")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
#: What a span starts with that is a command, and not a name.
_COMMANDS = ("atelier ", "make ", "pytest ", "python -m ", "curl ", "docker compose ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    page: str  #: path below the root
    line: int  #: where it stands, for messages
    language: str
    text: str

    @property
    def is_run(self) -> bool:
        """Whether a reader types or runs it."""
        return self.language in (SHELL, PYTHON)

    @property
    def start(self) -> str:
        """Its first line, without a comment."""
        return self.text.partition("\n")[0].partition("  #")[0].strip()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command line, of a block or between backticks in a sentence."""

    where: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.where}: {shlex.join(self.words)}"


def name_of(page: Path) -> str:
    """Its path below the root."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page=name_of(page), line=line, language=found[1], text=found[2])


def commands(page: Path) -> Iterator[Command]:
    """Every command line of a page: those of its shell blocks, and those in its sentences."""
    for block in blocks(page):
        if block.language == SHELL:
            yield from _split(str(block), block.text)
    text = _BLOCK.sub(lambda found: "\n" * found[0].count("\n"), page.read_text())
    for found in _SPAN.finditer(text):
        if found[1].startswith(_COMMANDS):
            line = text.count("\n", 0, found.start()) + 1
            yield from _split(f"{name_of(page)}:{line}", found[1].replace("…", "x"))


def _split(where: str, text: str) -> Iterator[Command]:
    """Command lines of a script: what is piped, chained or in a subshell is several."""
    for line in text.replace("\\\n", " ").splitlines():
        inner = re.findall(r"\$\(([^()]+)\)", line)
        for part in [re.sub(r"\$\([^()]+\)", "x", line), *inner]:
            lexer = shlex.shlex(part, posix=True, punctuation_chars="|&;()")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if word and not set(word) <= set("|&;()"):
                    words.append(word)
                elif said := tuple(_without_variables(words)):
                    yield Command(where=where, words=said)
                    words = []
                else:
                    words = []


def _without_variables(words: list[str]) -> Iterator[str]:
    """Leave out what is set for one command alone, and what it writes to or reads from."""
    started = skipped = False
    for word in words:
        is_redirection = re.fullmatch(r"\d?(>>?|<(?!\w+>))(.*)", word)
        if skipped or is_redirection:
            skipped = bool(is_redirection) and not is_redirection[2]
        elif started or not re.match(r"[A-Z_]+=", word):
            started = True
            yield word
