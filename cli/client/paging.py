"""Paginate long lists: print a page and the command that shows the next one."""

from typing import Annotated, Protocol, TypeVar

import typer

from cli.client import show
from cli.client.client import Reply

Limit = Annotated[int, typer.Option(min=1, max=100, help="As many on one page.")]
Cursor = Annotated[str | None, typer.Option(help="Go on from here.")]


class Page(Protocol):
    """Some of a list."""

    @property
    def cursor(self) -> str | None: ...


P = TypeVar("P", bound=Page)


def show_next(reply: Reply[P], command: str) -> None:
    """Say on stderr how a command shows the next page, if there is one."""
    if reply.view.cursor:
        show.err().print(f"More: {command} --cursor {reply.view.cursor}", highlight=False)
