"""Commands `atelier secrets`: what signs a tenant's webhooks, and the URLs of its images."""

from typing import Annotated

import typer

from atelier_client import Reply
from atelier_client.types.tenant import TenantSecret
from cli.client import show
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.times import read_seconds

EXAMPLE = "Example: atelier secrets rotate --overlap 2h"

app = typer.Typer(
    help="What signs a tenant's webhooks and image URLs: shown, rotated, taken back.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)

Tenant = Annotated[
    str | None, typer.Option(help="Another tenant; asked for with an operator's key.")
]


@app.command("show", epilog="Example: atelier secrets show")
def show_secret(
    tenant: Tenant = None, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False
) -> None:
    """Print the secret that webhooks are verified by."""
    with connect(url, key) as client:
        reply = client.secrets.get.raw(tenant=tenant)
    _tell(reply, as_json=as_json)


@app.command(epilog=EXAMPLE)
def rotate(
    overlap: Annotated[str, typer.Option(metavar="TIME", help="For which both sign.")] = "24h",
    tenant: Tenant = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Sign webhooks by a new secret, which is printed; for a while by the old one as well."""
    overlap_s = read_seconds("--overlap", overlap)
    with connect(url, key) as client:
        reply = client.secrets.rotate.raw(overlap_s=overlap_s, tenant=tenant)
    _tell(reply, as_json=as_json)


@app.command("revoke-urls", epilog="Example: atelier secrets revoke-urls")
def revoke_urls(
    tenant: Tenant = None, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False
) -> None:
    """Take back every signed URL of images; whoever reads a job again gets new ones."""
    with connect(url, key) as client:
        reply = client.secrets.revoke_urls.raw(tenant=tenant)
    said = f"URLs of {reply.value.tenant} signed so far are revoked"
    typer.echo(reply.body if as_json else said)


def _tell(reply: Reply[TenantSecret], *, as_json: bool) -> None:
    """Print the secret alone on stdout, so that a script can take it."""
    if as_json:
        typer.echo(reply.body)
        return
    typer.echo(reply.value.secret)
    whose = reply.value.tenant if reply.value.is_own else "the service, until it is rotated"
    show.err().print(f"It is of {whose}.", highlight=False, markup=False)
