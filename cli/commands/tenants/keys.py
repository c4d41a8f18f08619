"""Commands `atelier keys`: operators make, list, rotate and revoke tenants' API keys."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from cli.client import show
from cli.client.client import Reply, connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url
from cli.client.views import KeyAnswer
from cli.commands.kept import EXAMPLE_ID

app = typer.Typer(
    help="API keys of tenants; asked for with an operator's key.", no_args_is_help=True
)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class KeyScope(StrEnum):
    """What a key may do."""

    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"


KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, of `keys list`.")]


@app.command(epilog="Example: atelier keys add acme --name website --expires 30d")
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
    wanted: dict[str, object] = {"tenant": tenant, "name": name}
    if scope:
        wanted["scopes"] = [each.value for each in scope]
    if expires:
        wanted["expires_in_s"] = _seconds("--expires", expires)
    with connect(url, key) as client:
        reply = client.add_key(wanted)
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
        reply = client.keys(tenant=tenant)
    typer.echo(reply.raw) if as_json else _show(reply.view.data)


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
    overlap_s = _seconds("--overlap", overlap)
    with connect(url, key) as client:
        reply = client.rotate_key(key_id, overlap_s=overlap_s)
    _tell_new(reply, as_json=as_json)


@app.command(epilog=f"Example: atelier keys revoke {EXAMPLE_ID}")
def revoke(key_id: KeyId, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """End a key: it works no more within two seconds."""
    with connect(url, key) as client:
        reply = client.revoke_key(key_id)
    typer.echo(reply.raw if as_json else f"{reply.view.id} of {reply.view.tenant} is revoked")


def _tell_new(reply: Reply[KeyAnswer], *, as_json: bool) -> None:
    """Print the key alone on stdout, so that a script can take it."""
    if as_json:
        typer.echo(reply.raw)
        return
    typer.echo(reply.view.key)
    scopes = ", ".join(reply.view.scopes)
    show.err().print(
        f"Key {reply.view.id} of {reply.view.tenant} ({scopes}). It is not shown again.",
        highlight=False,
        markup=False,
    )


def _seconds(option: str, given: str) -> float:
    found = re.fullmatch(r"(\d{1,9})([smhd])", given)
    if found is None:
        raise typer.BadParameter(f"{option} {given[:50]}: must be as 30d, 12h, 90m or 45s")
    return float(int(found[1]) * _UNITS[found[2]])


def _show(keys: Iterable[KeyAnswer]) -> None:
    table = Table(box=None)
    table.add_column("id", no_wrap=True, min_width=32)  # to be copied, so never cut
    for name in ("tenant", "scopes", "status", "created", "expires", "name"):
        table.add_column(name)
    for key in keys:
        scopes, expires = ", ".join(key.scopes), _day(key.expires_at)
        table.add_row(
            key.id,
            key.tenant,
            scopes,
            key.status,
            _day(key.created_at),
            expires,
            show.one_line(key.name),
        )
    show.out().print(table)


def _day(at: float | None) -> str:
    return "never" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
