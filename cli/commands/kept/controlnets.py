"""Commands `atelier controlnets`, and the `--control` option of `submit`."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.client import picture
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.show_kept import show_controlnets
from cli.commands.kept.things import add_commands

app = typer.Typer(
    help="What images can be made to keep to.",
    epilog="Example: atelier controlnets add canny.safetensors --model shapes-xl --condition edges",
    no_args_is_help=True,
)


class ColourOrder(StrEnum):
    """In which order a ControlNet reads the colours of its pictures."""

    RGB = "rgb"
    BGR = "bgr"


@app.command(
    epilog="Example: atelier controlnets add diffusion_pytorch_model.safetensors "
    "--model shapes-xl --condition 'thin white outlines'"
)
def add(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A safetensors file."),
    ],
    model: Annotated[
        str | None, typer.Option(help="The model it is for; else all that it steers.")
    ] = None,
    condition: Annotated[str, typer.Option(help="What its pictures show, for a person.")] = "",
    order: Annotated[
        ColourOrder, typer.Option(help="Of the colours it was trained on.")
    ] = ColourOrder.RGB,
    pooled: Annotated[
        bool, typer.Option("--pooled", help="Of SD3: it is told the pooled prompt.")
    ] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Keep a ControlNet; what is printed is its id, for `submit --control`."""
    with connect(url, key) as client:
        reply = client.controlnets.add.raw(
            path, model=model, condition=condition, order=order, pooled=pooled
        )
    typer.echo(reply.body if as_json else reply.value.id)


add_commands(app, "controlnets", lambda client: client.controlnets, show_controlnets)


def named(controls: Sequence[str]) -> list[dict[str, str | int]]:
    """Write what was given as ID=IMAGE, or ID:MODE=IMAGE, as a request names it.

    Raises:
        typer.BadParameter: one has no id, or an image that is neither a file nor an id nor a URL.
    """
    return [_control(given) for given in controls]


def _control(given: str) -> dict[str, str | int]:
    name, separator, image = given.partition("=")
    if not name or not separator:
        raise typer.BadParameter(f"--control {given[:50]}: must be ID=IMAGE, as in edges=lines.png")
    name, separator, mode = name.partition(":")
    if separator and not mode.isdecimal():
        raise typer.BadParameter(f"--control {given[:50]}: the mode after ':' must be a number")
    told: dict[str, str | int] = {"mode": int(mode)} if separator else {}
    return {"id": name, "image": picture.named(image), **told}
