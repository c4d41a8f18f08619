import os
from pathlib import Path

import pytest

from catalog.config_file import MAX_BYTES, read_bytes, read_json


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.json"


def test_what_a_file_says_is_read(file: Path) -> None:
    file.write_text('{"a": [1, "ä"]}')
    assert read_json(file) == {"a": [1, "ä"]}


def test_a_file_as_large_as_any_is_read_and_no_larger_one(file: Path) -> None:
    file.write_bytes(b" " * MAX_BYTES)
    assert len(read_bytes(file)) == MAX_BYTES
    file.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(OSError, match="more than"):
        read_bytes(file)


def test_a_device_without_end_is_none(file: Path) -> None:
    file.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="no plain file"):
        read_bytes(file)


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(OSError, match="no plain file"):
        read_bytes(file)


def test_what_is_nested_too_deeply_is_no_json(file: Path) -> None:
    file.write_bytes(b'{"a":' * 100_000)
    with pytest.raises(ValueError, match="deeply"):
        read_json(file)
