"""Commands `atelier controlnets`, and the `--control` option of `submit`."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.client import picture, show
from cli.client.client import connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.paging import Cursor, Limit, show_deleted, show_page

app = typer.Typer(help="What images can be made to keep to.", no_args_is_help=True)


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
        reply = client.add_controlnet(
            path.read_bytes(), model=model, condition=condition, order=order, pooled=pooled
        )
    typer.echo(reply.raw if as_json else reply.view.id)


@app.command("list", epilog="Example: atelier controlnets list")
def list_controlnets(
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the ControlNets that a job may name, and the models that they steer."""
    with connect(url, key) as client:
        reply = client.controlnets(limit=limit, cursor=cursor)
    command = f"atelier controlnets list --limit {limit}"
    show_page(reply, show.show_controlnets, command, as_json=as_json)


@app.command(epilog="Example: atelier controlnets remove 0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5")
def remove(
    controlnet_id: Annotated[str, typer.Argument(metavar="CONTROLNET", help="Its id.")],
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Delete a ControlNet; jobs that were accepted still get it."""
    with connect(url, key) as client:
        reply = client.remove_controlnet(controlnet_id)
    show_deleted(reply, as_json=as_json)


def named(controls: Sequence[str]) -> list[dict[str, str]]:
    """Write what was given as ID=IMAGE as a request names it.

    Raises:
        typer.BadParameter: one has no id, or an image that is neither a file nor an id nor a URL.
    """
    return [_control(given) for given in controls]


def _control(given: str) -> dict[str, str]:
    name, separator, image = given.partition("=")
    if not name or not separator:
        raise typer.BadParameter(f"--control {given[:50]}: must be ID=IMAGE, as in edges=lines.png")
    return {"id": name, "image": picture.named(image)}
