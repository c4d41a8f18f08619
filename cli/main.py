"""Command `atelier` and its subcommands. Exit status 0, 1 or 2.

1: the service or the job failed; 2: the command line is wrong.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, cast

import typer

from atelier_client import ClientError, __version__
from cli.client.complaint import complain
from cli.commands import applications, jobs, models, submitting
from cli.commands.classifier import EXAMPLE as CLASSIFIER_EXAMPLE
from cli.commands.classifier import train_classifier
from cli.commands.kept import controlnets, embeddings, ip_adapters, loras, pictures
from cli.commands.operated import cells, dead, webhooks
from cli.commands.operated.fleet import CURRENT_PLAN, FLEET, HISTORY, current_plan, fleet, history
from cli.commands.plan import EXAMPLE_LINE as PLAN_EXAMPLE
from cli.commands.plan import plan
from cli.commands.profile import EXAMPLE as PROFILE_EXAMPLE
from cli.commands.profile import profile
from cli.commands.simulate import EXAMPLE_LINE as SIMULATE_EXAMPLE
from cli.commands.simulate import simulate
from cli.commands.tenants import keys, limits, secrets
from cli.commands.tenants.audit import EXAMPLE as AUDIT_EXAMPLE
from cli.commands.tenants.audit import audit
from cli.commands.tenants.usage import EXAMPLE as USAGE_EXAMPLE
from cli.commands.tenants.usage import usage
from cli.stack.up import EXAMPLE as UP_EXAMPLE
from cli.stack.up import up
from core.errors import AtelierError
from loadgen.main import app as load_app

app = typer.Typer(
    help="Prompts in, image URLs out: run the service, ask it for images, put it under load.",
    epilog='Example: atelier submit "a red circle" --out circle.png',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
submitting.add_commands(app)
jobs.add_commands(app)
app.add_typer(models.app, name="models")
app.add_typer(pictures.templates, name="templates")
app.add_typer(pictures.files, name="files")
app.add_typer(loras.app, name="loras")
app.add_typer(embeddings.app, name="embeddings")
app.add_typer(controlnets.app, name="controlnets")
app.add_typer(ip_adapters.app, name="ip-adapters")
app.add_typer(applications.app, name="applications")
app.add_typer(keys.app, name="keys")
app.add_typer(limits.app, name="tenants")
app.add_typer(secrets.app, name="secrets")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(dead.app, name="dead")
app.add_typer(cells.app, name="cells")
app.command(epilog=UP_EXAMPLE)(up)
app.command(epilog=FLEET)(fleet)
app.command(epilog=CURRENT_PLAN)(current_plan)
app.command(epilog=HISTORY)(history)
app.add_typer(load_app, name="load")
app.command(epilog=PROFILE_EXAMPLE)(profile)
app.command(epilog=SIMULATE_EXAMPLE)(simulate)
app.command(epilog=PLAN_EXAMPLE)(plan)
app.command(epilog=USAGE_EXAMPLE)(usage)
app.command(epilog=AUDIT_EXAMPLE)(audit)
app.command(epilog=CLASSIFIER_EXAMPLE)(train_classifier)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"atelier {__version__}")
        raise typer.Exit


@app.callback()
def atelier(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Say which it is."),
    ] = False,
) -> None:
    """Take what concerns every command."""


@cache
def command() -> typer.core.TyperGroup:
    """Build every command with its options: 0.1 s, once a process."""
    return cast(typer.core.TyperGroup, typer.main.get_command(app))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `atelier`; say what went wrong in a line or two, never by a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:  # a program is told of a wrong command line in JSON too, so not by the library
        code = command()(args=given, prog_name="atelier", standalone_mode=not as_json)
    except (AtelierError, ClientError, OSError) as error:  # OSError: of this machine's files
        complain(error, as_json=as_json)
        sys.exit(1)
    except typer.TyperException as error:
        complain(error, as_json=as_json)
        sys.exit(error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
