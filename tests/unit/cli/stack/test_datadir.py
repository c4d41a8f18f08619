import base64
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from cli.stack.datadir import hold, keep_secrets
from core.errors import ConfigurationError


def test_secrets_are_made_once_and_only_we_may_read_them(tmp_path):
    first = keep_secrets(tmp_path)
    assert keep_secrets(tmp_path) == first
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_two_folders_have_different_secrets(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert keep_secrets(tmp_path / "a") != keep_secrets(tmp_path / "b")


def test_the_webhook_secret_has_the_form_of_standard_webhooks(tmp_path):
    secret = keep_secrets(tmp_path).webhook_secret
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32


def test_secrets_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "secrets.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"secrets\.json"):
        keep_secrets(tmp_path)


def test_secrets_that_found_no_space_are_made_at_the_next_start(tmp_path):
    program = """
import pathlib, resource, signal, sys
from cli.stack.datadir import keep_secrets
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
keep_secrets(pathlib.Path(sys.argv[1]))
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    assert b"OSError" in subprocess.run(command, capture_output=True).stderr
    first = keep_secrets(tmp_path)
    assert keep_secrets(tmp_path) == first
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_secrets_that_an_earlier_version_left_empty_are_made(tmp_path):
    (tmp_path / "secrets.json").touch()
    assert keep_secrets(tmp_path) == keep_secrets(tmp_path)


def test_who_asks_at_once_gets_the_same_secrets(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(keep_secrets, [tmp_path] * 32))) == 1


def test_a_file_of_another_version_is_completed_and_loses_nothing(tmp_path):
    path = tmp_path / "secrets.json"
    made = keep_secrets(tmp_path)
    fields = json.loads(path.read_text())
    del fields["operator_key"]
    path.write_text(json.dumps(fields | {"newer": "kept"}))
    completed = keep_secrets(tmp_path)
    assert completed.url_secret == made.url_secret
    assert keep_secrets(tmp_path) == completed
    assert json.loads(path.read_text())["newer"] == "kept"
    assert path.stat().st_mode & 0o777 == 0o600


def test_two_stacks_cannot_share_a_folder(tmp_path):
    folder = tmp_path / "data"
    with hold(folder), pytest.raises(ConfigurationError, match="in use"), hold(folder):
        pass
    with hold(folder):
        pass


def test_a_folder_that_is_made_is_ours_alone(tmp_path):
    with hold(tmp_path / "data") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
