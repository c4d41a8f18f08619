"""Command `atelier ip-adapters list`, and how `submit` names one: pictures to attend to."""

import typer

from cli.client import picture
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.show_kept import show_ip_adapters

EXAMPLE = "Example: atelier ip-adapters list"

app = typer.Typer(
    help="IP-Adapters of the service.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)


@app.callback()
def ip_adapters() -> None:
    """Keep `list` a word of its own."""


@app.command("list", epilog=EXAMPLE)
def list_ip_adapters(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """List the IP-Adapters that `submit --ip-adapter` may name."""
    with connect(url, key) as client:
        reply = client.ip_adapters.list.raw()
    typer.echo(reply.body) if as_json else show_ip_adapters(reply.value.data)


def named(given: str) -> dict[str, str | float]:
    """Write what was given as ID=IMAGE, or ID:SCALE=IMAGE, as a request names an IP-Adapter.

    Raises:
        typer.BadParameter: it is neither, or the picture cannot be read.
    """
    name, separator, image = given.partition("=")
    name, has_scale, scale = name.partition(":")
    if not name or not separator:
        raise typer.BadParameter(
            f"--ip-adapter {given[:50]}: must be ID=IMAGE, as in plus=cat.png or plus:0.6=cat.png"
        )
    try:
        told: dict[str, str | float] = {"scale": float(scale)} if has_scale else {}
    except ValueError as error:
        fault = "the scale after ':' must be a number"
        raise typer.BadParameter(f"--ip-adapter {given[:50]}: {fault}") from error
    return {"id": name, "image": picture.named(image), **told}
