"""Say what went wrong with a command: lines for people, with `--json` one JSON object."""

import msgspec
import typer

from cli.client import show


class Answered(Exception):
    """What the service itself said of an error: it stands behind the one that is raised."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw = raw  #: RFC 9457 problem details


def complain(error: Exception, *, as_json: bool) -> None:
    """Print an error on stderr: stdout is for results."""
    if as_json:
        typer.echo(_problem(error), err=True)
    else:
        show.complain(str(error))


def _problem(error: Exception) -> bytes:
    """Encode an error as the service encodes its own, or give what that said."""
    if isinstance(error.__cause__, Answered):
        return error.__cause__.raw
    is_usage = isinstance(error, typer.TyperException)
    title = "The command line is wrong" if is_usage else "The command failed"
    detail = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    return msgspec.json.encode({"type": "about:blank", "title": title, "detail": detail})
