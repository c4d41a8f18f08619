"""Commands `atelier loras`: upload, list and delete LoRAs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.client import show
from cli.client.client import connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.paging import Cursor, Limit, show_deleted, show_page

app = typer.Typer(help="LoRAs: small changes of a model, such as a style.", no_args_is_help=True)


@app.command(epilog="Example: atelier loras add night.safetensors --model shapes-xl --bound 10")
def add(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A safetensors file."),
    ],
    model: Annotated[
        str | None, typer.Option(help="The model it is for; else all that it fits.")
    ] = None,
    bound: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=50,
            help="Of 50 steps, how many may run while it is loaded; else as `profile` found.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Keep a LoRA; what is printed is its id, for `submit --lora`."""
    with connect(url, key) as client:
        reply = client.add_lora(path.read_bytes(), model=model, bound=bound)
    typer.echo(reply.raw if as_json else reply.view.id)


@app.command("list", epilog="Example: atelier loras list --limit 50")
def list_loras(
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the LoRAs kept, newest first."""
    with connect(url, key) as client:
        reply = client.loras(limit=limit, cursor=cursor)
    show_page(reply, show.show_loras, f"atelier loras list --limit {limit}", as_json=as_json)


@app.command(epilog="Example: atelier loras remove 0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5")
def remove(
    lora_id: Annotated[str, typer.Argument(metavar="LORA", help="Its id.")],
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Delete a LoRA; jobs that were accepted still get it."""
    with connect(url, key) as client:
        reply = client.remove_lora(lora_id)
    show_deleted(reply, as_json=as_json)


def named(uses: list[str]) -> list[dict[str, object]]:
    """Read LoRAs as a person names them: an id, or `<id>:<scale>`.

    Raises: typer.BadParameter if a scale is no number.
    """
    loras: list[dict[str, object]] = []
    for use in uses:
        lora_id, colon, scale = use.partition(":")
        try:
            loras.append({"id": lora_id} | ({"scale": float(scale)} if colon else {}))
        except ValueError as error:
            raise typer.BadParameter(f"{use}: {scale!r} is no number") from error
    return loras
