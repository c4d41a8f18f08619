"""Commands `atelier applications`: register SLO and quality floor for some jobs."""

from typing import Annotated

import typer

from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.client.show_kept import show_applications

EXAMPLE = "Example: atelier applications add avatars --model shapes-xl --slo 5 --floor 0.9"

app = typer.Typer(
    help="What jobs that name an application may get: models, time, quality.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="What jobs name.")]


@app.command(epilog=EXAMPLE)
def add(
    name: Name,
    model: Annotated[
        list[str] | None,
        typer.Option(help="May serve it; may be repeated; else all of known quality."),
    ] = None,
    slo: Annotated[
        float | None, typer.Option(help="Seconds from acceptance to images; else 3 x the best's.")
    ] = None,
    floor: Annotated[float, typer.Option(min=0, max=1, help="Relative quality of levels.")] = 0.0,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Register an application, for `submit --application`."""
    with connect(url, key) as client:
        reply = client.applications.add.raw(
            name, models=model or None, slo_s=slo, quality_floor=floor
        )
    typer.echo(reply.body) if as_json else show_applications([reply.value])


@app.command("list", epilog="Example: atelier applications list --json")
def list_applications(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """List the applications registered, by name."""
    with connect(url, key) as client:
        reply = client.applications.list.raw()
    typer.echo(reply.body) if as_json else show_applications(reply.value.data)


@app.command("show", epilog="Example: atelier applications show avatars")
def show_one(name: Name, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Show one application."""
    with connect(url, key) as client:
        reply = client.applications.get.raw(name)
    typer.echo(reply.body) if as_json else show_applications([reply.value])


@app.command(epilog="Example: atelier applications remove avatars")
def remove(name: Name, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Delete an application; jobs that were accepted are made all the same."""
    with connect(url, key) as client:
        reply = client.applications.delete.raw(name)
    typer.echo(reply.body if as_json else f"{reply.value.name} is deleted")
