"""Shorten and escape what strangers wrote, before a message or a log repeats it. Pure."""

import re
from typing import Final

#: Characters of a stranger's that a message repeats: enough to find what is meant.
MAX_REPEATED: Final = 100

#: C0, DEL and C1, and what turns the direction of text or begins a new line in a viewer.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BUT_LINES: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def shorten(text: str, limit: int = MAX_REPEATED) -> str:
    """Cut a text after `limit` characters, and say how many it has."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def escape(text: str, *, keeps_lines: bool = False) -> str:
    """Write control characters as Python would, so that no terminal obeys them.

    `keeps_lines`: line feeds and tabs stay, as in a traceback.
    """
    if text.isprintable():
        return text
    control = _BUT_LINES if keeps_lines else _CONTROL
    return control.sub(lambda found: repr(found[0])[1:-1], text)
