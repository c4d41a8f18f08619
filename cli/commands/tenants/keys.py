"""Commands `atelier keys`: operators make, list, rotate and revoke tenants' API keys."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from atelier_client import Reply
from atelier_client.types.tenant import Key as TenantKey
from cli.client import show
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.tables import TableColumn, print_table
from cli.client.times import read_seconds
from cli.commands.kept.things import EXAMPLE_ID

EXAMPLE = "Example: atelier keys add acme --name website --expires 30d"

app = typer.Typer(
    help="API keys of tenants; asked for with an operator's key.\n\nA service without keys answers "
    "409: start it with ATELIER_OPERATOR_KEYS (docs/tenants.md).",
    epilog=EXAMPLE,
    no_args_is_help=True,
)


class KeyScope(StrEnum):
    """What a key may do."""

    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"


KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, of `keys list`.")]


@app.command(epilog=EXAMPLE)
def add(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose key it is.")],
    scope: Annotated[
        list[KeyScope] | None,
        typer.Option(help="What it may do; may be repeated; else submit and read."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Such as 30d, 12h; else it does not expire.")
    ] = None,
    name: Annotated[str, typer.Option(help="Where it is used, for people.")] = "",
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make a key; what is printed is the key itself, which is not shown again."""
    expires_in_s = read_seconds("--expires", expires) if expires else None
    with connect(url, key) as client:
        reply = client.keys.add.raw(tenant, name=name, scopes=scope, expires_in_s=expires_in_s)
    _tell_new(reply, as_json=as_json)


@app.command("list", epilog="Example: atelier keys list --tenant acme")
def list_keys(
    tenant: Annotated[str | None, typer.Option(help="Only keys of this tenant.")] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the keys made, newest first, those that work no more too."""
    with connect(url, key) as client:
        reply = client.keys.list.raw(tenant=tenant)
    typer.echo(reply.body) if as_json else _show(reply.value.data)


@app.command(epilog=f"Example: atelier keys rotate {EXAMPLE_ID} --overlap 2h")
def rotate(
    key_id: KeyId,
    overlap: Annotated[
        str, typer.Option(metavar="TIME", help="For which the old key works on.")
    ] = "24h",
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make a key in the place of another; what is printed is the new one, not shown again."""
    overlap_s = read_seconds("--overlap", overlap)
    with connect(url, key) as client:
        reply = client.keys.rotate.raw(key_id, overlap_s=overlap_s)
    _tell_new(reply, as_json=as_json)


@app.command(epilog=f"Example: atelier keys revoke {EXAMPLE_ID}")
def revoke(key_id: KeyId, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """End a key: it works no more within two seconds."""
    with connect(url, key) as client:
        reply = client.keys.revoke.raw(key_id)
    typer.echo(reply.body if as_json else f"{reply.value.id} of {reply.value.tenant} is revoked")


def _tell_new(reply: Reply[TenantKey], *, as_json: bool) -> None:
    """Print the key alone on stdout, so that a script can take it."""
    if as_json:
        typer.echo(reply.body)
        return
    typer.echo(reply.value.key)
    scopes = ", ".join(reply.value.scopes)
    show.err().print(
        f"Key {reply.value.id} of {reply.value.tenant} ({scopes}). It is not shown again.",
        highlight=False,
        markup=False,
    )


def _show(keys: Iterable[TenantKey]) -> None:
    rows = [
        (
            key.id,
            key.tenant,
            ", ".join(key.scopes),
            key.status,
            show.moment(key.created_at),
            show.moment(key.expires_at),
            show.one_line(key.name),
        )
        for key in keys
    ]
    columns = ("id", "tenant", "scopes", "status", "created", "expires")
    print_table((*columns, TableColumn(name="name", is_cut=True)), rows)
