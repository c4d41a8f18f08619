"""Commands that all kept things share: list them page by page, delete one."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from cli.client.client import Client, Reply, connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.paging import Cursor, Limit, show_deleted, show_page
from cli.client.views import Deleted, Listing

T = TypeVar("T")

EXAMPLE_ID = "0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5"

#: Reads one page, of at most so many, from a cursor on.
ReadPage = Callable[[Client, int, str | None], Reply[Listing[T]]]


def add_list(
    app: typer.Typer,
    noun: str,
    read: ReadPage[T],
    show_rows: Callable[[tuple[T, ...]], None],
    *,
    help: str,
    example: str,
) -> None:
    """Add `atelier <noun> list`, which says how its next page is shown."""

    @app.command("list", help=help, epilog=f"Example: atelier {noun} list{example}")
    def _(
        limit: Limit = 20,
        cursor: Cursor = None,
        url: Url = DEFAULT_URL,
        key: Key = None,
        as_json: AsJson = False,
    ) -> None:
        with connect(url, key) as client:
            reply = read(client, limit, cursor)
        show_page(reply, show_rows, f"atelier {noun} list --limit {limit}", as_json=as_json)


def add_remove(
    app: typer.Typer,
    noun: str,
    remove: Callable[[Client, str], Reply[Deleted]],
    *,
    help: str,
    metavar: str,
) -> None:
    """Add `atelier <noun> remove`."""

    @app.command(
        "remove",
        help=help,
        epilog=f"Example: atelier {noun} remove {EXAMPLE_ID}",
    )
    def _(
        kept_id: Annotated[str, typer.Argument(metavar=metavar, help="Its id.")],
        url: Url = DEFAULT_URL,
        key: Key = None,
        as_json: AsJson = False,
    ) -> None:
        with connect(url, key) as client:
            reply = remove(client, kept_id)
        show_deleted(reply, as_json=as_json)
