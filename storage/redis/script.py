"""Load the Lua scripts of the job state machine, and call them by digest."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import redis
import redis.asyncio
from redis.exceptions import NoScriptError

from storage.redis.connect import Reply, Word, ask, ask_sync

#: Scripts that take in what is new: a server that has used up its `maxmemory` refuses them. All
#: others keep the prelude's first line and run on, so that accepted jobs end and make room.
REFUSED_WITHOUT_MEMORY = frozenset({"keep", "register", "retry", "submit"})


@dataclass(frozen=True, slots=True)
class Script:
    """One transition, run by the server as a whole or not at all."""

    name: str  #: the file's name without its ending
    source: str  #: Lua: the shared prelude, then the file
    sha: str  #: digest the server knows it by


@cache
def load(name: str) -> Script:
    """Read `scripts/<name>.lua` and put the shared prelude before it."""
    folder = files("storage.redis").joinpath("scripts")
    parts = (folder.joinpath(f"{part}.lua").read_text("utf-8") for part in ("prelude", name))
    source = "\n".join(parts)
    if name in REFUSED_WITHOUT_MEMORY:
        source = source.partition("\n")[2]
    return Script(name, source, hashlib.sha1(source.encode()).hexdigest())


async def call(client: "redis.asyncio.Redis", script: Script, *args: Word) -> Reply:
    """Run a script; a server that does not know it (yet, or any more) gets its source.

    Raises:
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
