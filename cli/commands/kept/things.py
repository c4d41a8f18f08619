"""Commands that all kept things share: list them page by page, show one, delete one."""

from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import typer

from atelier_client import Client
from atelier_client.exchange.endpoints import Threaded
from atelier_client.resources.kept import KeptThings
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.paging import Cursor, Limit, show_deleted, show_page

T = TypeVar("T")

EXAMPLE_ID = "0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5"


def add_commands(
    app: typer.Typer,
    noun: str,
    of: Callable[[Client], KeptThings[Threaded, T]],
    show_rows: Callable[[Iterable[T]], None],
    *,
    removed: str = "jobs that were accepted still have it",
) -> None:
    """Add `atelier <noun> list`, which says how its next page is shown, `show` and `remove`."""
    one = noun.removesuffix("s")
    Id = Annotated[str, typer.Argument(metavar=one.upper(), help="Its id.")]

    @app.command(
        "list",
        help=f"List the {noun} that a job may name.",
        epilog=f"Example: atelier {noun} list --limit 50",
    )
    def _list(
        limit: Limit = 20,
        cursor: Cursor = None,
        url: Url = DEFAULT_URL,
        key: Key = None,
        as_json: AsJson = False,
    ) -> None:
        with connect(url, key) as client:
            reply = of(client).list.raw(limit=limit, cursor=cursor)
        show_page(reply, show_rows, f"atelier {noun} list --limit {limit}", as_json=as_json)

    @app.command(
        "show", help=f"Show one {one}.", epilog=f"Example: atelier {noun} show {EXAMPLE_ID}"
    )
    def _show(
        kept_id: Id, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False
    ) -> None:
        with connect(url, key) as client:
            reply = of(client).get.raw(kept_id)
        typer.echo(reply.body) if as_json else show_rows([reply.value])

    @app.command(
        "remove",
        help=f"Delete one {one}; {removed}.",
        epilog=f"Example: atelier {noun} remove {EXAMPLE_ID}",
    )
    def _remove(
        kept_id: Id, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False
    ) -> None:
        with connect(url, key) as client:
            reply = of(client).delete.raw(kept_id)
        show_deleted(reply, as_json=as_json)
