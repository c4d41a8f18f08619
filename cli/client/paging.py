"""Print lists page by page, with the command that shows the next one, and what was deleted."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from atelier_client import Reply
from atelier_client.types.kept import Deleted, Page
from cli.client import show

Limit = Annotated[int, typer.Option(min=1, max=100, help="As many on one page.")]
Cursor = Annotated[str | None, typer.Option(help="Go on from here.")]

T = TypeVar("T")


def show_page(
    reply: Reply[Page[T]],
    show_rows: Callable[[tuple[T, ...]], None],
    command: str,
    *,
    as_json: bool,
) -> None:
    """Print a page; say on stderr how a command shows the next one, if there is one."""
    if as_json:
        return typer.echo(reply.body)
    show_rows(reply.value.data)
    if reply.value.cursor:
        show.err().print(f"More: {command} --cursor {reply.value.cursor}", highlight=False)


def show_deleted(reply: Reply[Deleted], *, as_json: bool) -> None:
    """Say what was deleted."""
    typer.echo(reply.body if as_json else f"{reply.value.id} is deleted")
