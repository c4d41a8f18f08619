"""Commands `atelier tenants`: operators set limits of tenants, and how often they are served."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from atelier_client.types.tenant import Tenant
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.tables import TableColumn, print_table
from cli.client.times import read_seconds

EXAMPLE = "Example: atelier tenants set acme --rate 5 --burst 20 --open 100"

app = typer.Typer(
    help="Limits and weights of tenants; asked for with an operator's key.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)

TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="Whose limits they are.")]

#: Options of `set` -> what they are called over HTTP.
_FIELDS = {
    "weight": "weight",
    "keep": "retention_s",
    "rate": "jobs_per_s",
    "burst": "burst",
    "open": "open_jobs",
    "images": "images_a_day",
    "bytes": "kept_bytes",
}


@app.command("list", epilog="Example: atelier tenants list")
def list_tenants(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """List the tenants that have keys, or of which something is said."""
    with connect(url, key) as client:
        reply = client.tenants.list.raw()
    typer.echo(reply.body) if as_json else _show(reply.value.data)


@app.command("show", epilog="Example: atelier tenants show acme")
def show_tenant(
    tenant: TenantName, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False
) -> None:
    """Show what is in force for one tenant."""
    with connect(url, key) as client:
        reply = client.tenants.get.raw(tenant)
    typer.echo(reply.body) if as_json else _show([reply.value])


@app.command("set", epilog=EXAMPLE)
def set_tenant(
    tenant: TenantName,
    weight: Annotated[
        float | None, typer.Option(help="Serve it so many times as often as others.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep its jobs so long, such as 12h.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Jobs accepted a second.")] = None,
    burst: Annotated[int | None, typer.Option(help="Jobs accepted at once.")] = None,
    open_: Annotated[int | None, typer.Option("--open", help="Jobs not ended, at most.")] = None,
    images: Annotated[int | None, typer.Option(help="Images a day, of UTC.")] = None,
    bytes_: Annotated[int | None, typer.Option("--bytes", help="Bytes kept, at most.")] = None,
    default: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Take the default of one back; may be repeated."),
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Change limits or the weight of a tenant; what is not named stays."""
    given = {
        "weight": weight,
        "keep": None if keep is None else read_seconds("--keep", keep),
        "rate": rate,
        "burst": burst,
        "open": open_,
        "images": images,
        "bytes": bytes_,
    }
    for name in default or ():
        if name not in _FIELDS:
            raise typer.BadParameter(f"--default {name[:50]}: is none of {', '.join(_FIELDS)}")
    wanted: dict[str, Any] = {_FIELDS[name]: None for name in default or ()}
    wanted |= {_FIELDS[name]: value for name, value in given.items() if value is not None}
    if not wanted:
        raise typer.BadParameter("say what to change, such as --rate 5")
    with connect(url, key) as client:
        reply = client.tenants.change.raw(tenant, **wanted)
    typer.echo(reply.body) if as_json else _show([reply.value])


def _show(tenants: Iterable[Tenant]) -> None:
    names = ("weight", "kept for", "rate", "burst", "open", "images", "bytes")
    columns = [TableColumn(name=name, is_number=True) for name in names]
    rows = []
    for each in tenants:
        limits = each.limits
        counts = (limits.burst, limits.open_jobs, limits.images_a_day, limits.kept_bytes)
        rate = "-" if limits.jobs_per_s is None else f"{limits.jobs_per_s:g}/s"
        shown = ("-" if count is None else f"{count:,}" for count in counts)
        rows.append((each.name, f"{each.weight:g}", f"{each.retention_s:,.0f} s", rate, *shown))
    print_table(("tenant", *columns), rows)
