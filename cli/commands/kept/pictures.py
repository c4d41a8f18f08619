"""Commands `atelier files` and `atelier templates`: keep, list, show and delete pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from atelier_client import Client
from atelier_client.exchange.endpoints import Threaded
from atelier_client.resources.kept import Pictures
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.show_kept import show_pictures
from cli.commands.kept.things import add_commands

Picture = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="An image.")
]

files = typer.Typer(
    help="Masks, and pictures to start from or keep to, named by id.",
    epilog="Example: atelier files add mask.png",
    no_args_is_help=True,
)
templates = typer.Typer(
    help="Images that are edited again and again.",
    epilog="Example: atelier templates add photo.png",
    no_args_is_help=True,
)


def _add_commands(
    app: typer.Typer, noun: str, of: Callable[[Client], Pictures[Threaded]], use: str
) -> None:
    @app.command(
        help=f"Keep an image; what is printed is its id, for `submit {use}`.",
        epilog=f"Example: atelier {noun} add photo.png",
    )
    def add(
        path: Picture, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False
    ) -> None:
        with connect(url, key) as client:
            reply = of(client).add.raw(path)
        typer.echo(reply.body if as_json else reply.value.id)

    add_commands(
        app, noun, of, show_pictures, removed="jobs that were accepted have their own copy"
    )


_add_commands(files, "files", lambda client: client.files, "--image")
_add_commands(templates, "templates", lambda client: client.templates, "--template")
