"""Read the parts of the `atelier profile` file that a worker needs."""

from pathlib import Path
from typing import TypeVar

import msgspec

from core.codec import decode
from core.errors import ConfigurationError

T = TypeVar("T")


def read_profiled(path: Path, part: type[T]) -> T:
    """Read the fields of a profile that `part` has; without a profile those it has by default.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    try:
        return decode(path.read_bytes(), part)
    except FileNotFoundError:
        return part()
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
