"""PostgreSQL of Debian's package for tests: in a folder of its own, as a user of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.stack.ports import free_port
from core.errors import ConfigurationError
from tests.servers import Server

USER, PASSWORD, DATABASE = "atelier", "test-password", "atelier"


@contextmanager
def postgres_server() -> Iterator[Server]:
    """Start a server until the block ends.

    Raises:
        ConfigurationError: it is not installed, or does not start.
    """
    with tempfile.TemporaryDirectory(prefix="atelier-postgres-") as name:
        folder, port = Path(name), free_port()
        server = Server(
            command=postgres_command(
                postgres_files(folder, USER, PASSWORD, DATABASE), "127.0.0.1", port
            ),
            port=port,
            url=f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}",
            log=folder / "server.log",
            is_ready=_is_ready,
        ).start()
        try:
            yield server
        finally:
            server.kill()  # in order it would wait for all who are connected


def postgres_programs() -> list[Path]:
    """Find the folders of its programs, the newest last."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def postgres_files(folder: Path, user: str, password: str, database: str) -> Path:
    """Lay out the files of a server that asks everybody for a password."""
    folder.mkdir(exist_ok=True)
    secret, data = folder / "password", folder / "data"
    secret.write_text(password)
    for path in (folder, secret) if _as_user() else ():
        shutil.chown(path, "postgres")
    words = ["-N", "-E", "UTF8", "-U", user, "-A", "scram-sha-256", "--pwfile", str(secret)]
    _run("initdb", "-D", str(data), *words)
    _run("postgres", "--single", "-D", str(data), "postgres", said=f"CREATE DATABASE {database}")
    return data


def postgres_command(data: Path, host: str, port: int) -> list[str]:
    """Say how a server is started over its files."""
    options = ["-c", f"listen_addresses={host}", "-c", "unix_socket_directories="]
    return [*_program("postgres"), "-D", str(data), "-p", str(port), *options]


def _program(name: str) -> list[str]:
    """It refuses to run as root: then it is the package's own user."""
    found = postgres_programs()
    if not found:
        raise ConfigurationError("no PostgreSQL: apt-get install postgresql")
    return [*_as_user(), str(found[-1] / name)]


def _as_user() -> list[str]:
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    return as_user if os.getuid() == 0 else []


def _run(name: str, *words: str, said: str = "") -> None:
    command = [*_program(name), *words]
    subprocess.run(command, input=said.encode(), cwd="/", check=True, capture_output=True)


def _is_ready(port: int) -> bool:
    asked = ["pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    return not subprocess.run(asked, check=False).returncode
