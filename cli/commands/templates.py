"""Commands `atelier templates`: upload, list and delete edit templates."""

from pathlib import Path
from typing import Annotated

import typer

from cli.client import show
from cli.client.client import Client, connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.picture import UNKNOWN_TYPE, type_of
from cli.commands.kept import add_list, add_remove

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


add_list(
    app,
    "templates",
    lambda client, limit, cursor: client.templates(limit=limit, cursor=cursor),
    show.show_templates,
    help="List the templates kept, newest first.",
    example=" --limit 50",
)
add_remove(
    app,
    "templates",
    Client.remove_template,
    help="Delete a template; jobs that were accepted have their own copy.",
    metavar="TEMPLATE",
)
