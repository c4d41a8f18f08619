"""Command `atelier up`: run the whole service on one machine."""

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from catalog.models import served_models
from cli.client import show
from cli.stack.datadir import hold, keep_secrets
from cli.stack.ports import claim_port
from cli.stack.process import Tell
from cli.stack.services import Ports, Stack, models_dir, worker_names
from cli.stack.supervisor import Supervisor
from cli.stack.warming import tell_of_warming
from core.errors import ConfigurationError
from core.settings import get_settings

EXAMPLE = "Example: atelier up --port 8000 --workers 1 --data-dir data"

#: Where Flower and the scheduler listen unless somebody says otherwise or it is taken.
FLOWER_PORT, SCHEDULER_PORT = 5555, 8001


def _port(what: str, asked: int | None, usual: int) -> int:
    """Keep the port asked for, else the usual one, else any that is free."""
    if asked is not None:
        return claim_port(asked, what)
    try:
        return claim_port(usual, what)
    except ConfigurationError:
        return claim_port(0, what)


def choose_ports(api: int, flower: int | None, workers: int) -> Ports:
    """Check the ports asked for and find the others; no two are the same.

    Raises:
        ConfigurationError: one that was asked for is taken, or both are one.
    """
    if api and api == flower:
        raise ConfigurationError(f"--port and --flower-port are both {api}: each takes its own")
    return Ports(
        api=claim_port(api, "api"),
        flower=_port("flower", flower, FLOWER_PORT if api else 0),
        scheduler=_port("scheduler", None, SCHEDULER_PORT if api else 0),
        store=claim_port(0, "store"),
        metrics={name: claim_port(0, name) for name in worker_names(workers)},
    )


def addresses(stack: Stack) -> dict[str, str]:
    """Name what a person or a program may want to open."""
    return {
        "api": stack.public_url,
        "docs": f"{stack.public_url}/docs",
        "metrics": f"{stack.public_url}/metrics",
        "flower": stack.flower_url,
        "scheduler": stack.scheduler_url,
        "store": stack.store_url,
        "secrets": str(stack.data_dir / "secrets.json"),
        "logs": str(stack.data_dir / "logs"),
    }


def _announce(stack: Stack, supervisor: Supervisor, *, as_json: bool) -> None:
    if as_json:
        pids = {child.service.name: child.pid for child in supervisor.children}
        typer.echo(msgspec.json.encode({**addresses(stack), "pids": pids}))
        return
    table = Table(show_header=False, title="Atelier is up", title_justify="left", box=None)
    for name, address in addresses(stack).items():
        table.add_row(name, address)
    console = show.out()
    console.print(table)
    console.print("Flower asks for the user and password of the secrets file.")
    console.print(f'Try: atelier submit "a red circle" --out circle.png --url {stack.public_url}')


class UnreadConsole(Console):
    """Falls silent once nobody reads it; rich would end the process, and cut off stdout too."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def teller(console: Console) -> Tell:
    """Say lines on a console, with the time; that one cannot be written stops nothing."""
    began = time.monotonic()

    def tell(line: str) -> None:
        now_s = time.monotonic() - began
        with suppress(OSError, SystemExit):
            console.print(f"{now_s:7.1f} s  {line}", highlight=False, markup=False)

    return tell


async def _run(stack: Stack, *, as_json: bool) -> None:
    console = UnreadConsole(stderr=True, soft_wrap=True)
    tell = teller(console)
    supervisor = Supervisor(stack.stages(), logs=stack.data_dir / "logs", tell=tell)
    stopping = on_signals(supervisor)
    try:
        with console.status("starting"):
            is_up = await _start(supervisor, stopping)
        if is_up:
            _announce(stack, supervisor, as_json=as_json)
            await _stay(stack, stopping, tell)
    finally:
        tell("stopping; a second signal kills")
        await supervisor.stop()
        tell("stopped")


async def _stay(stack: Stack, stopping: asyncio.Event, tell: Tell) -> None:
    """Say what workers load until somebody says stop."""
    telling = asyncio.create_task(tell_of_warming(stack.api_url, stack.headers, tell))
    await stopping.wait()
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)


async def _start(supervisor: Supervisor, stopping: asyncio.Event) -> bool:
    """Start everything; False if somebody said stop before that was done."""
    starting = asyncio.create_task(supervisor.start())
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    return False


def on_signals(supervisor: Supervisor) -> asyncio.Event:
    """Stop at the first SIGTERM or SIGINT, kill at the second.

    A terminal that goes stops too, unless that is ignored (`nohup`): it may say so twice.
    """
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        supervisor.kill() if stopping.is_set() else stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stopping.set)
    return stopping


def up(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the api; 0 is a free one.")
    ] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Workers: a GPU each, or a share of the host.")
    ] = 1,
    data_dir: Annotated[
        Path | None, typer.Option(help="Objects, job records, logs and secrets.")
    ] = None,
    flower_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Of Flower; 5555 if that is free.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON.")] = False,
) -> None:
    """Run the whole service on this machine, in the foreground.

    SIGTERM, Ctrl-C or the end of its terminal (unless under nohup) stops it in order: workers
    finish what takes them at most ATELIER_SHUTDOWN_S and give the rest back. What dies or hangs
    is started again.
    Models are loaded once everything runs, one by one; jobs that come meanwhile wait for theirs.
    Ends with 1 if a program does not start.
    """
    settings = get_settings()
    if not as_json:  # the logs say it too
        show.show_ignored(models_dir(settings))
    served_models(models_dir(settings))  # without one, nothing could be made
    with hold((data_dir or settings.data_dir).resolve()) as folder:
        stack = Stack(
            data_dir=folder,
            ports=choose_ports(port, flower_port, workers),
            secrets=keep_secrets(folder),
            workers=workers,
            settings=settings,
        )
        asyncio.run(_run(stack, as_json=as_json))
