"""Commands `atelier models`: add a user's own models, list, show and remove them.

They ask the service. Where none answers and it would be this machine's, they work on its models
folder themselves, and the next `atelier up` serves what is there.
"""

import time
from pathlib import Path
from typing import Annotated

import httpx
import typer

from atelier_client import Client, NoAnswer
from atelier_client.types.service import Model
from catalog.adding import remove
from catalog.converting import ways_to_add
from catalog.models import ReadModel
from cli.client import show, show_models
from cli.client.options import DEFAULT_URL, AsJson, Key, Url, connect
from cli.stack.services import models_dir
from core.errors import NotFound
from core.settings import get_settings

EXAMPLE = "Example: atelier models add ~/my-sdxl.safetensors --name portraits"

app = typer.Typer(
    help="What the service makes images with.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)

#: Whose models may be those of this machine.
OWN_HOSTS = ("127.0.0.1", "::1", "localhost")
#: Seconds that workers have to notice a new model, before we say that none has yet.
NOTICED_S = 30.0
POLL_S = 0.5

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `models list` shows it.")]


@app.command(epilog=EXAMPLE)
def add(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A folder of diffusers' layout, or a .safetensors checkpoint."
        ),
    ],
    name: Annotated[str | None, typer.Option(help="What to call it; else as its folder.")] = None,
    base: Annotated[
        Path | None,
        typer.Option(help="Of a checkpoint: a stock folder of its family for what it lacks."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what it would be served as.")
    ] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Have a model served: a stock folder is linked, not copied, so it must stay where it is.

    A single file (SD 1.x/2.x, SDXL; SD 3 and Flux with --base) is converted into such a folder,
    which takes minutes and as much disk again.

    What cannot be served is refused with the reason and what would help: docs/models.md.
    """
    path, base = _whole(path), _whole(base) if base else None
    with connect(url, key) as client:
        try:
            with show.err().status("a file is converted" if path.is_file() else "added"):
                reply = client.models.add.raw(
                    str(path), name=name, base=str(base) if base else None, dry_run=dry_run
                )
        except NoAnswer as error:
            found = _here(url, error, path, name, base, dry_run=dry_run)
            if as_json:
                typer.echo(show_models.json_of(found))
            else:
                show_models.show_read(found, is_planned=dry_run, folder=_models_dir())
            return
        if as_json:
            typer.echo(reply.body)
        else:
            show_models.show_model(reply.value)
        if not dry_run:
            _wait(client, reply.value.id)


@app.command("list", epilog="Example: atelier models list --json")
def list_models(url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """List the models served, their sizes and limits."""
    with connect(url, key) as client:
        reply = client.models.list.raw()
    typer.echo(reply.body) if as_json else show_models.show_models(reply.value.data)
    if not as_json and httpx.URL(url).host in OWN_HOSTS:
        show.show_ignored(_models_dir())


@app.command("show", epilog="Example: atelier models show portraits")
def show_one(name: Name, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False) -> None:
    """Show what a model makes, what its folder holds, and whether a worker can load it."""
    with connect(url, key) as client:
        reply = client.models.get.raw(name)
    typer.echo(reply.body) if as_json else show_models.show_model(reply.value)


@app.command("remove", epilog="Example: atelier models remove portraits")
def remove_model(
    name: Name, url: Url = DEFAULT_URL, key: Key = None, as_json: AsJson = False
) -> None:
    """Serve a model no more. The files of a folder that was linked stay where they are.

    Jobs that wait for it move to another model, or fail where they named it.
    """
    with connect(url, key) as client:
        try:
            reply = client.models.delete.raw(name)
        except NoAnswer as error:
            if not _is_own(url):
                raise
            remove(_models_dir(), name)
            show.err().print(f"{error}; removed from {_models_dir()}", highlight=False)
            if as_json:
                typer.echo(show_models.json_of_removed(name))
            return
    typer.echo(reply.body if as_json else f"{reply.value.id} is served no more")


def _whole(path: Path) -> Path:
    """Write a path of this disk whole; another is the service's own."""
    path = path.expanduser()
    return path.resolve() if path.exists() else path


def _here(
    url: str,
    error: NoAnswer,
    path: Path,
    name: str | None,
    base: Path | None,
    *,
    dry_run: bool,
) -> ReadModel:
    """Add to the models folder of this machine, where no service does."""
    if not _is_own(url):
        raise error
    show.err().print(f"{error}; this machine's models folder is used", highlight=False)
    plan, do = ways_to_add(path, base)
    return (plan if dry_run else do)(path, _models_dir(), name)


def _wait(client: Client, name: str) -> None:
    """Wait until a worker can load a model: from then on requests may name it."""
    deadline = time.monotonic() + NOTICED_S
    with show.err().status("a worker looks at it"):
        while time.monotonic() < deadline:
            if _find(client, name).is_loadable:
                return
            time.sleep(POLL_S)
    show.err().print(
        f"No worker has noticed {name} yet: `atelier models show {name}` says when one has.",
        highlight=False,
    )


def _find(client: Client, name: str) -> Model:
    found = next((each for each in client.models.list().data if each.id == name), None)
    if found is None:
        raise NotFound(f"there is no model {name}")
    return found


def _is_own(url: str) -> bool:
    return httpx.URL(url).host in OWN_HOSTS


def _models_dir() -> Path:
    return models_dir(get_settings())
