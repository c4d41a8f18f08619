"""Commands `atelier webhooks`: what no receiver took, and sending it again."""

from collections.abc import Iterable
from typing import Annotated

import typer

from atelier_client.types.service import DeadWebhook
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.paging import Cursor, Limit, show_page
from cli.client.show import one_line
from cli.client.tables import TableColumn, print_table

EXAMPLE = "Example: atelier webhooks list --limit 50"

app = typer.Typer(
    help="Webhooks that no receiver took.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)


@app.command("list", epilog=EXAMPLE)
def list_dead(
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List the webhooks that were given up, the latest first; they are kept for a week."""
    with connect(url, key) as client:
        reply = client.webhooks.dead.raw(limit=limit, cursor=cursor)
    show_page(reply, _show, f"atelier webhooks list --limit {limit}", as_json=as_json)


@app.command(epilog="Example: atelier webhooks replay 4f6b8d0a")
def replay(
    webhook_id: Annotated[
        str, typer.Argument(metavar="WEBHOOK", help="Its id, of `webhooks list`.")
    ],
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Send a webhook again, under its id, as often as a new one."""
    with connect(url, key) as client:
        reply = client.webhooks.replay.raw(webhook_id)
    typer.echo(reply.body if as_json else f"{reply.value.id} is sent again")


@app.command(epilog="Example: atelier webhooks secret")
def secret(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Print what webhooks are signed by, where the service tells it."""
    with connect(url, key) as client:
        reply = client.webhooks.secret.raw()
    typer.echo(reply.body if as_json else reply.value.key)


def _show(webhooks: Iterable[DeadWebhook]) -> None:
    rows = [
        (each.id, each.job, each.event, str(each.attempts), one_line(each.url)) for each in webhooks
    ]
    columns = ("id", "job", "event", TableColumn(name="attempts", is_number=True))
    print_table((*columns, TableColumn(name="url", is_cut=True)), rows)
