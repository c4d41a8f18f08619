import os
from pathlib import Path

import pytest

from storage.redis.server import find_server_binary, server_command, wheel_binary


def test_a_server_on_path_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "valkey-server"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server_binary() == fake
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert find_server_binary() == wheel_binary()


def test_the_wheel_carries_a_server_that_can_be_run() -> None:
    binary = wheel_binary()
    assert binary is not None and os.access(binary, os.X_OK)


def test_the_command_listens_on_loopback_logs_every_write_and_evicts_nothing() -> None:
    words = server_command(Path("/bin/server"), Path("/data"), 6400)
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert words[0] == "/bin/server"
    assert (options["--bind"], options["--port"], options["--dir"]) == (
        "127.0.0.1",
        "6400",
        "/data",
    )
    assert (options["--appendonly"], options["--appendfsync"]) == ("yes", "everysec")
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--hash-max-listpack-value"] == "4096"
    assert options["--latency-tracking"] == "no"
