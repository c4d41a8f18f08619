"""Command `atelier ip-adapters list`: what images can be made to attend to pictures by."""

import typer

from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.show_kept import show_ip_adapters

app = typer.Typer(help="IP-Adapters of the service.", no_args_is_help=True)


@app.callback()
def ip_adapters() -> None:
    """Keep `list` a word of its own."""


@app.command("list", epilog="Example: atelier ip-adapters list")
def list_ip_adapters(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """List the IP-Adapters that `submit --ip-adapter` may name."""
    with connect(url, key) as client:
        reply = client.ip_adapters.list.raw()
    typer.echo(reply.body) if as_json else show_ip_adapters(reply.value.data)
