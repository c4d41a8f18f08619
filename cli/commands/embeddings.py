"""Commands `atelier embeddings`: upload, list and delete learned embeddings."""

from pathlib import Path
from typing import Annotated

import typer

from cli.client import show
from cli.client.client import Client, connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.commands.kept import add_list, add_remove

app = typer.Typer(
    help="Learned embeddings (textual inversion): words that prompts may say.",
    no_args_is_help=True,
)


@app.command(epilog="Example: atelier embeddings add cat.safetensors --token '<cat>'")
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
        reply = client.add_embedding(path.read_bytes(), model=model, token=token)
    typer.echo(reply.raw if as_json else reply.view.id)


add_list(
    app,
    "embeddings",
    lambda client, limit, cursor: client.embeddings(limit=limit, cursor=cursor),
    show.show_embeddings,
    help="List the embeddings kept, newest first.",
    example=" --limit 50",
)
add_remove(
    app,
    "embeddings",
    Client.remove_embedding,
    help="Delete an embedding; jobs that were accepted still get it.",
    metavar="EMBEDDING",
)
