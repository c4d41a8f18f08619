"""Commands `atelier templates`: upload, list and delete edit templates."""

from pathlib import Path
from typing import Annotated

import typer

from cli.client import show
from cli.client.client import connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.paging import Cursor, Limit, show_deleted, show_page
from cli.client.picture import UNKNOWN_TYPE, type_of

app = typer.Typer(help="Images that are edited again and again.", no_args_is_help=True)


@app.command(epilog="Example: atelier templates add photo.png")
def add(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="An image.")
    ],
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Keep an image; what is printed is its id, for `submit --template`."""
    kind = type_of(path)
    with connect(url, key) as client:
        reply = client.add_template(
            path.read_bytes(), kind if kind.startswith("image/") else UNKNOWN_TYPE
        )
    typer.echo(reply.raw if as_json else reply.view.id)


@app.command("list", epilog="Example: atelier templates list --limit 50")
def list_templates(
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the templates kept, newest first."""
    with connect(url, key) as client:
        reply = client.templates(limit=limit, cursor=cursor)
    show_page(
        reply, show.show_templates, f"atelier templates list --limit {limit}", as_json=as_json
    )


@app.command(epilog="Example: atelier templates remove 0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5")
def remove(
    template_id: Annotated[str, typer.Argument(metavar="TEMPLATE", help="Its id.")],
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Delete a template; jobs that were accepted have their own copy."""
    with connect(url, key) as client:
        reply = client.remove_template(template_id)
    show_deleted(reply, as_json=as_json)
