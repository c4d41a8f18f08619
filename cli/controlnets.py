"""What does a person make images keep to? `atelier controlnets`, and `submit --control`."""

from collections.abc import Sequence

import typer

from cli import picture, show
from cli.client import connect
from cli.options import DEFAULT_URL, AsJson, Key, Url

app = typer.Typer(help="What images can be made to keep to.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `list` a word of its own, though it is the only one."""


@app.command("list", epilog="Example: atelier controlnets list")
def list_controlnets(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """List the ControlNets that a job may name, and the models that they steer."""
    with connect(url, key) as client:
        reply = client.controlnets()
    if as_json:
        return typer.echo(reply.raw)
    show.show_controlnets(reply.view.data)


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
