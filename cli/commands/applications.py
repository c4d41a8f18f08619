"""Commands `atelier applications`: register SLO and quality floor for some jobs."""

from typing import Annotated

import typer

from cli.client import show
from cli.client.client import connect
from cli.client.options import DEFAULT_URL, AsJson, Key, Url

app = typer.Typer(
    help="What jobs that name an application may get: models, time, quality.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="What jobs name.")]


@app.command(
    epilog="Example: atelier applications add avatars --model shapes-xl --slo 5 --floor 0.9"
)
def add(
    name: Name,
    model: Annotated[
        list[str] | None, typer.Option(help="May serve it; may be repeated; else all may.")
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
    wanted = {"name": name, "models": model or None, "slo_s": slo, "quality_floor": floor}
    with connect(url, key) as client:
        reply = client.add_application(wanted)
    typer.echo(reply.raw) if as_json else show.show_applications([reply.view])


@app.command("list", epilog="Example: atelier applications list --json")
def list_applications(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """List the applications registered, by name."""
    with connect(url, key) as client:
        reply = client.applications()
    typer.echo(reply.raw) if as_json else show.show_applications(reply.view.data)


@app.command(epilog="Example: atelier applications remove avatars")
def remove(name: Name, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Delete an application; jobs that were accepted are made all the same."""
    with connect(url, key) as client:
        reply = client.remove_application(name)
    typer.echo(reply.raw if as_json else f"{reply.view.name} is deleted")
