"""Read JSON files of folders that strangers made: plain files, of bounded size and depth. Pure."""

import errno
import json
import os
from pathlib import Path
from stat import S_ISREG
from typing import Final

#: Bytes of one file; of stock folders the largest, which list shards, have a tenth.
MAX_BYTES: Final = 2 * 2**20


def read_json(file: Path) -> object:
    """Read what a file says.

    Raises:
        OSError: it is no plain file, too large, or cannot be read.
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        return json.loads(read_bytes(file))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_bytes(file: Path) -> bytes:
    """Read a whole file. Nothing is waited for: a pipe, or a device without end, is none.

    Raises:
        OSError: it is no plain file, too large, or cannot be read.
    """
    with open(file, "rb", opener=_open) as data:
        if not S_ISREG(os.fstat(data.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(file))
        content = data.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES} bytes", str(file))
    return content


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
