"""Commands `atelier embeddings`: upload, list and delete learned embeddings."""

from pathlib import Path
from typing import Annotated

import typer

from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.show_kept import show_embeddings
from cli.commands.kept.things import add_commands

EXAMPLE = "Example: atelier embeddings add cat.safetensors --token '<cat>'"

app = typer.Typer(
    help="Learned embeddings (textual inversion): words that prompts may say.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)


@app.command(epilog=EXAMPLE)
def add(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A safetensors file."),
    ],
    token: Annotated[
        str | None, typer.Option(help="Its word in prompts; else the one that the file names.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model it is for; else all that it fits.")
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Keep an embedding; what is printed is its id, for `submit --embedding`."""
    with connect(url, key) as client:
        reply = client.embeddings.add.raw(path, model=model, token=token)
    typer.echo(reply.body if as_json else reply.value.id)


add_commands(app, "embeddings", lambda client: client.embeddings, show_embeddings)
