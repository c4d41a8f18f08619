"""Say what went wrong with a command: lines for people, with `--json` one JSON object."""

import msgspec
import typer

from atelier_client import ProblemError
from cli.client import show


def complain(error: Exception, *, as_json: bool) -> None:
    """Print an error on stderr: stdout is for results."""
    if as_json:
        typer.echo(_problem(error), err=True)
    else:
        show.complain(str(error))


def _problem(error: Exception) -> bytes:
    """Encode an error as the service encodes its own, or give what that said."""
    if isinstance(error, ProblemError) and error.body.startswith(b"{"):
        return error.body
    is_usage = isinstance(error, typer.TyperException)
    title = "The command line is wrong" if is_usage else "The command failed"
    detail = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    return msgspec.json.encode({"type": "about:blank", "title": title, "detail": detail})
