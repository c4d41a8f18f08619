"""Commands `atelier loras`: upload, list and delete LoRAs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.show_kept import show_loras
from cli.commands.kept.things import add_commands

EXAMPLE = "Example: atelier loras add night.safetensors --model shapes-xl --bound 10"

app = typer.Typer(
    help="LoRAs: small changes of a model, such as a style.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)


@app.command(epilog=EXAMPLE)
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
        reply = client.loras.add.raw(path, model=model, bound=bound)
    typer.echo(reply.body if as_json else reply.value.id)


add_commands(app, "loras", lambda client: client.loras, show_loras)


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
