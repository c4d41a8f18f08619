"""Load the Lua scripts of the job state machine, and call them by digest."""

import hashlib
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import redis
import redis.asyncio
from redis.exceptions import NoScriptError

from storage.redis.connect import Reply, Word, ask, ask_sync

ALLOWED = "#!lua flags=allow-oom\n"
#: Scripts that take in what is new: a server that has used up its `maxmemory` refuses them. All
#: others say that they are allowed to run on, so that accepted jobs end and make room.
REFUSED_WITHOUT_MEMORY = frozenset({"keep", "lend", "register", "retry", "score", "submit"})
NO_LIMIT = 10**15  #: stands in what a script is given for a limit that there is not

_DEFINITION = re.compile(r"^(local (?:function )?(\w+))", re.MULTILINE)
_RARELY = re.compile(r"^ +-- rarely: (.*)\n", re.MULTILINE)
_COMMENT = re.compile(r"\s*(--.*)?$")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Script:
    """One transition, run by the server as a whole or not at all."""

    name: str  #: the file's name without its ending
    source: str  #: Lua: what it uses of the shared prelude, then the file
    sha: str  #: digest the server knows it by


@cache
def load(name: str) -> Script:
    """Read `scripts/<name>.lua` and put what it uses of the prelude before it."""
    source = link(read("prelude"), read(name))
    if name not in REFUSED_WITHOUT_MEMORY:
        source = ALLOWED + source
    return Script(name, source, hashlib.sha1(source.encode()).hexdigest())


def read(name: str) -> str:
    """Read a file of `scripts/`."""
    return files("storage.redis").joinpath("scripts", f"{name}.lua").read_text("utf-8")


def link(prelude: str, body: str) -> str:
    """Put before a script the definitions that it uses, and those that they use, in their order.

    A server makes every function anew in each call of a script, also those that nobody calls:
    all of the prelude took as long as three commands. A definition begins with `local` at the
    start of a line, and ends where the next one begins. A line `-- rarely: close, bury` within a
    function stands for what is made where it is called alone.
    """
    definitions = _split(prelude)
    rare = {name for names in _RARELY.findall(body) for name in _words(names)}
    often = _used(definitions, _words(_without_comments(body)) - rare)
    rest = {name: text for name, text in definitions.items() if name not in often}

    def define(found: re.Match[str]) -> str:
        return "".join(_used(rest, _words(found[1])).values())

    return "".join([*often.values(), _RARELY.sub(define, body)])


def _used(definitions: dict[str, str], words: Set[str]) -> dict[str, str]:
    """Choose the definitions that these words name, and those that they use, in their order."""
    used = set(words)
    for name, text in reversed(definitions.items()):  # each uses only what stands before it
        if name in used:
            used |= _words(text)
    return {name: text for name, text in definitions.items() if name in used}


def _split(prelude: str) -> dict[str, str]:
    starts = _DEFINITION.split(_without_comments(prelude))[1:]
    return {name: head + rest for head, name, rest in zip(*[iter(starts)] * 3, strict=True)}


def _without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not _COMMENT.match(line))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))


async def call(client: "redis.asyncio.Redis", script: Script, *args: Word) -> Reply:
    """Run a script; a server that does not know it (yet, or any more) gets its source.

    Raises:
        StoreRefused: Redis refuses to write now, and nothing was written.
        StoreUnavailable: Redis cannot serve now.
    """
    try:
        return await ask(client, "EVALSHA", script.sha, 0, *args)
    except NoScriptError:
        return await ask(client, "EVAL", script.source, 0, *args)


def call_sync(client: redis.Redis, script: Script, *args: Word) -> Reply:
    """Do what `call` does, for threads."""
    try:
        return ask_sync(client, "EVALSHA", script.sha, 0, *args)
    except NoScriptError:
        return ask_sync(client, "EVAL", script.source, 0, *args)


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Give a script's HGETALL back its shape."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
