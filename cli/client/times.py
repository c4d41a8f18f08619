"""Times as people write them on the command line."""

import re

import typer

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read_seconds(option: str, given: str) -> float:
    """Read a time such as `30d`, `12h`, `90m` or `45s`. Raises: BadParameter naming the option."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", given)
    if found is None:
        raise typer.BadParameter(f"{option} {given[:50]}: must be as 30d, 12h, 90m or 45s")
    return float(int(found[1]) * _UNITS[found[2]])
